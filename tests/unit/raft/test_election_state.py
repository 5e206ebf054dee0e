"""The file `quorum-state`, in Kafka's two versions."""

import pytest

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import TopicId
from headwater.raft.election_state import (
    ElectionState,
    decode_election_state,
    encode_election_state,
)
from headwater.raft.voter_set import ReplicaKey

VOTED = ReplicaKey(2, TopicId(b"0123456789abcdef"))


def test_kraft_version_0_writes_the_voters_and_no_directory_id() -> None:
    content = encode_election_state(
        ElectionState(epoch=5, voted_key=VOTED), kraft_version=0, voter_ids=(1, 2)
    )
    assert content == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert decode_election_state(content) == ElectionState(epoch=5, voted_key=ReplicaKey(2))


def test_kraft_version_1_writes_the_directory_id() -> None:
    election = ElectionState(epoch=5, leader_id=1, voted_key=VOTED)
    content = encode_election_state(election, kraft_version=1, voter_ids=(1, 2))
    assert content == (
        b'{"leaderId":1,"leaderEpoch":5,"votedId":2,'
        b'"votedDirectoryId":"MDEyMzQ1Njc4OWFiY2RlZg","data_version":1}'
    )
    assert decode_election_state(content) == election


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"leaderId":1,"leaderEpoch":2,"votedId":1,"data_version":2}'],
)
def test_another_content_is_a_corrupt_file(content: bytes) -> None:
    with pytest.raises(CorruptFile, match="quorum-state"):
        decode_election_state(content)
