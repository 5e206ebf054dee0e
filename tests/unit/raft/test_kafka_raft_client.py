"""A replica of the quorum: what it answers, and what is durable before it does."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headwater.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from headwater.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from headwater.protocol.messages.fetch import FetchRequest, LeaderIdAndEpoch
from headwater.protocol.messages.fetch import PartitionData as FetchedPartition
from headwater.protocol.messages.vote import VoteRequest, VoteResponse
from headwater.raft.control_records import LeaderChangeMessage, read_control_records
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_events import (
    FlushLog,
    HandleCommit,
    HandleLeaderChange,
    SendRequest,
    SendResponse,
    WriteElectionState,
)
from headwater.raft.raft_messages import (
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_response,
    vote_response,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Node, ReplicaKey
from tests.unit.raft.raft_lab import RaftLab, a_batch, a_vote, fetched, granted, static_voters


def answer(lab: RaftLab, request: VoteRequest) -> tuple[ErrorCode, bool]:
    response = lab.request(request)
    assert isinstance(response, VoteResponse)
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.vote_granted


def a_fetch(replica: int, epoch: int, end: tuple[int, int]) -> FetchRequest:
    return fetch_request(
        cluster_id="c",
        replica=ReplicaKey(replica),
        epoch=epoch,
        end=OffsetAndEpoch(*end),
        high_watermark=2**63 - 1,
    )


def begin_epoch(leader: int, epoch: int) -> BeginQuorumEpochRequest:
    return begin_quorum_epoch_request(
        cluster_id="c",
        voter=ReplicaKey(0),
        leader=LeaderAndEpoch(leader, epoch),
        endpoints=static_voters(3).endpoints_of(leader),
    )


def fetch_nothing(lab: RaftLab, fetch: SendRequest, *, leader: int) -> None:
    current = LeaderIdAndEpoch(leader_id=leader, leader_epoch=1)
    data = FetchedPartition(high_watermark=-1, records=b"", current_leader=current)
    lab.respond(fetch, fetch_response(data))


def pre_vote_of(request: VoteRequest) -> bool:
    return request.topics[0].partitions[0].pre_vote


def denied(epoch: int) -> VoteResponse:
    current = LeaderAndEpoch(1, epoch)
    return vote_response(ErrorCode.NONE, current, is_granted=False, node=None)


# Votes


def test_a_vote_is_durable_before_it_is_answered() -> None:
    lab = RaftLab()
    assert answer(lab, a_vote(1, 3)) == (ErrorCode.NONE, True)
    voted = WriteElectionState(ElectionState(epoch=3, voted_key=ReplicaKey(1)))
    kinds = [type(each) for each in lab.effects]
    assert voted in lab.effects
    assert lab.effects.index(voted) < kinds.index(SendResponse)


def test_a_voter_has_one_vote_per_epoch() -> None:
    lab = RaftLab()
    assert answer(lab, a_vote(1, 3)) == (ErrorCode.NONE, True)
    assert answer(lab, a_vote(2, 3)) == (ErrorCode.NONE, False)
    assert answer(lab, a_vote(1, 3)) == (ErrorCode.NONE, True)


def test_a_restarted_voter_remembers_its_vote() -> None:
    lab = RaftLab(stored=ElectionState(epoch=3, voted_key=ReplicaKey(1)))
    assert answer(lab, a_vote(2, 3)) == (ErrorCode.NONE, False)
    assert answer(lab, a_vote(1, 3)) == (ErrorCode.NONE, True)


@pytest.mark.parametrize(
    ("end", "is_granted"), [((2, 2), True), ((1, 3), True), ((1, 2), False), ((9, 1), False)]
)
def test_a_vote_needs_a_log_that_is_up_to_date(end: tuple[int, int], is_granted: bool) -> None:
    lab = RaftLab(epochs=[1, 2])
    assert answer(lab, a_vote(1, 5, end=end)) == (ErrorCode.NONE, is_granted)


def test_an_earlier_epoch_is_fenced() -> None:
    lab = RaftLab(stored=ElectionState(epoch=7))
    assert answer(lab, a_vote(1, 6)) == (ErrorCode.FENCED_LEADER_EPOCH, False)


def test_a_last_epoch_beyond_the_candidates_is_invalid() -> None:
    lab = RaftLab()
    assert answer(lab, a_vote(1, 3, end=(1, 3)))[0] is ErrorCode.INVALID_REQUEST
    assert answer(lab, a_vote(1, 3, end=(1, 3), is_pre_vote=True)) == (ErrorCode.NONE, True)


def test_a_request_for_another_cluster_is_refused() -> None:
    response = RaftLab().request(VoteRequest(cluster_id="other"))
    assert response == VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)


def test_a_pre_vote_is_neither_durable_nor_binding() -> None:
    lab = RaftLab(stored=ElectionState(epoch=2))
    assert answer(lab, a_vote(1, 2, is_pre_vote=True)) == (ErrorCode.NONE, True)
    assert not [each for each in lab.effects if isinstance(each, WriteElectionState)]
    assert answer(lab, a_vote(2, 2, is_pre_vote=True)) == (ErrorCode.NONE, True)


def test_a_follower_refuses_pre_votes_once_it_has_fetched() -> None:
    """KR-4."""
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    (fetch,) = lab.sent(FetchRequest)
    assert answer(lab, a_vote(2, 1, is_pre_vote=True)) == (ErrorCode.NONE, True)
    fetch_nothing(lab, fetch, leader=1)
    assert answer(lab, a_vote(2, 1, is_pre_vote=True)) == (ErrorCode.NONE, False)


def test_a_follower_whose_leader_refuses_connections_stands_for_election() -> None:
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    (fetch,) = lab.sent(FetchRequest)
    fetch_nothing(lab, fetch, leader=1)
    # Only the leader of this epoch counts.
    for other in (LeaderAndEpoch(2, 1), LeaderAndEpoch(1, 0)):
        lab.refuse_leader(other)
        assert lab.client.state_name == "follower"
    lab.refuse_leader(LeaderAndEpoch(1, 1))
    assert lab.client.state_name == "prospective"
    asked = [each.message for each in lab.sent(VoteRequest)]
    assert all(isinstance(each, VoteRequest) and pre_vote_of(each) for each in asked)
    # Another voter that has found the same may lead.
    assert answer(lab, a_vote(2, 1, is_pre_vote=True)) == (ErrorCode.NONE, True)


def test_a_follower_that_wins_no_pre_vote_follows_the_leader_again() -> None:
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    lab.refuse_leader(LeaderAndEpoch(1, 1))
    for asked in lab.sent(VoteRequest):
        lab.respond(asked, denied(1))
    assert lab.client.state_name == "follower"
    assert lab.client.leader_and_epoch == LeaderAndEpoch(1, 1)


# Elections


def test_an_election_begins_with_pre_votes_in_the_old_epoch() -> None:
    lab = RaftLab(stored=ElectionState(epoch=4))
    lab.wait(5_000)
    asked = [each.message for each in lab.sent(VoteRequest)]
    assert len(asked) == 2
    for each in asked:
        assert isinstance(each, VoteRequest)
        partition = each.topics[0].partitions[0]
        assert (partition.replica_epoch, partition.pre_vote) == (4, True)
    assert lab.client.state_name == "prospective"
    assert lab.client.leader_and_epoch.epoch == 4


def test_a_candidate_votes_for_itself_before_it_asks() -> None:
    lab = RaftLab(stored=ElectionState(epoch=4))
    lab.wait(5_000)
    lab.respond(lab.sent(VoteRequest)[0], granted(4))
    assert lab.client.state_name == "candidate"
    voted = WriteElectionState(ElectionState(epoch=5, voted_key=ReplicaKey(0)))
    assert lab.effects.index(voted) < lab.effects.index(lab.sent(VoteRequest)[0])


def test_a_late_pre_vote_does_not_elect_a_leader() -> None:
    lab = RaftLab(stored=ElectionState(epoch=4))
    lab.wait(5_000)
    first, second = lab.sent(VoteRequest)
    lab.respond(first, granted(4))
    lab.respond(second, granted(4))
    lab.respond(second, granted(5))
    assert lab.client.state_name == "candidate"


def test_a_leader_begins_its_epoch_with_a_durable_leader_change() -> None:
    lab = RaftLab(epochs=[1], stored=ElectionState(epoch=1))
    lab.become_leader()
    batches = lab.log.read(1, lab.log.end_offset, 1 << 20)
    (record,) = [each.message for each in read_control_records(batches)]
    assert isinstance(record, LeaderChangeMessage)
    assert record.leader_id == 0
    assert [each.voter_id for each in record.granting_voters] == [0, 1]
    elected = WriteElectionState(ElectionState(epoch=2, leader_id=0, voted_key=ReplicaKey(0)))
    kinds = [type(each) for each in lab.effects]
    assert lab.effects.index(elected) < kinds.index(FlushLog) < kinds.index(SendRequest)


def test_a_restarted_leader_is_resigned() -> None:
    lab = RaftLab(stored=ElectionState(epoch=3, leader_id=0, voted_key=ReplicaKey(0)))
    assert lab.client.state_name == "resigned"
    lab.wait(5_000)
    assert lab.client.leader_and_epoch == LeaderAndEpoch(None, 4)


def test_the_only_voter_leads_at_once() -> None:
    lab = RaftLab(voters=static_voters(1))
    assert lab.client.is_leader
    assert lab.client.high_watermark == 1
    kinds = [type(each) for each in lab.effects]
    assert kinds.index(FlushLog) < kinds.index(HandleCommit) < len(kinds)
    assert HandleLeaderChange(LeaderAndEpoch(0, 1)) in lab.effects


def test_the_first_preferred_successor_stands_for_election_at_once() -> None:
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    request: EndQuorumEpochRequest = end_quorum_epoch_request(
        cluster_id="c",
        leader=LeaderAndEpoch(1, 1),
        preferred=(ReplicaKey(0), ReplicaKey(2)),
        endpoints=(),
    )
    lab.request(request)
    assert lab.client.state_name == "prospective"


def test_a_leader_without_fetches_of_a_majority_resigns() -> None:
    lab = RaftLab()
    lab.become_leader()
    lab.wait(2_900)
    assert lab.client.is_leader
    lab.request(a_fetch(1, 1, (0, 0)))
    lab.wait(2_900)
    assert lab.client.is_leader
    lab.wait(200)
    assert lab.client.state_name == "resigned"
    assert lab.sent(EndQuorumEpochRequest)


# Replication


def test_records_commit_when_a_majority_has_them() -> None:
    lab = RaftLab()
    lab.become_leader()
    appended = lab.client.append(1, bytearray(a_batch()), lab.now_ms)
    assert appended.info == (1, 1)
    assert [type(each) for each in appended.effects] == [FlushLog]
    data = fetched(lab.request(a_fetch(1, 1, (0, 0))))
    assert data.records == lab.log.read(0, 2, 1 << 20)
    assert lab.client.high_watermark == 0
    lab.request(a_fetch(1, 1, (2, 1)))
    assert lab.client.high_watermark == 2
    assert HandleCommit(0, 2) in lab.effects


def test_records_of_an_earlier_epoch_do_not_commit_by_count() -> None:
    """KR-2."""
    lab = RaftLab(epochs=[1], stored=ElectionState(epoch=1))
    lab.become_leader()
    lab.request(a_fetch(1, 2, (1, 1)))
    assert lab.client.high_watermark == 0
    lab.request(a_fetch(1, 2, (2, 2)))
    assert lab.client.high_watermark == 2


def test_an_observer_does_not_count() -> None:
    lab = RaftLab()
    lab.become_leader()
    lab.request(a_fetch(7, 1, (1, 1)))
    assert lab.client.high_watermark == 0


def test_a_delayed_fetch_gets_records_before_the_leader_has_synced_them() -> None:
    lab = RaftLab()
    lab.become_leader()
    assert lab.request(a_fetch(1, 1, (1, 1))) is None
    appended = lab.client.append(1, bytearray(a_batch()), lab.now_ms)
    assert [type(each) for each in appended.effects] == [SendResponse, FlushLog]


def test_a_diverging_follower_is_told_where_its_epoch_ends() -> None:
    lab = RaftLab(epochs=[1, 1, 3], stored=ElectionState(epoch=3))
    lab.become_leader()
    data = fetched(lab.request(a_fetch(1, 4, (3, 2))))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 2)
    assert not data.records


def test_only_the_leader_of_the_epoch_answers_fetches() -> None:
    lab = RaftLab()
    lab.become_leader()
    assert fetched(lab.request(a_fetch(1, 0, (0, 0)))).error_code is ErrorCode.FENCED_LEADER_EPOCH
    later = fetched(lab.request(a_fetch(1, 2, (0, 0))))
    assert later.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    follower = RaftLab()
    follower.request(begin_epoch(1, 1))
    refused = fetched(follower.request(a_fetch(2, 1, (0, 0))))
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader.leader_id == 1


def test_a_follower_syncs_before_its_next_fetch() -> None:
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    (fetch,) = lab.sent(FetchRequest)
    leader = RaftLab(epochs=[1])
    plain = FetchedPartition()
    data = FetchedPartition(
        high_watermark=1,
        current_leader=type(plain.current_leader)(leader_id=1, leader_epoch=1),
        records=leader.log.read(0, 1, 1 << 20),
    )
    lab.respond(fetch, fetch_response(data))
    kinds = [type(each) for each in lab.effects]
    assert kinds == [FlushLog, HandleCommit, SendRequest]
    (following,) = lab.sent(FetchRequest)
    assert isinstance(following.message, FetchRequest)
    assert following.message.topics[0].partitions[0].fetch_offset == 1


def test_a_follower_appends_nothing_of_a_damaged_response() -> None:
    lab = RaftLab()
    lab.request(begin_epoch(1, 1))
    (fetch,) = lab.sent(FetchRequest)
    plain = FetchedPartition()
    data = FetchedPartition(
        high_watermark=1,
        current_leader=type(plain.current_leader)(leader_id=1, leader_epoch=1),
        records=b"no batch",
    )
    lab.respond(fetch, fetch_response(data))
    assert lab.effects == []
    assert lab.log.end_offset == 0
    # It asks again after its backoff.
    lab.wait(20)
    assert len(lab.sent(FetchRequest)) == 1


def test_an_unattached_replica_follows_a_leader_once_it_knows_its_endpoints() -> None:
    lab = RaftLab(stored=ElectionState(epoch=3, leader_id=7))
    assert lab.client.state_name == "unattached"
    (fetch,) = lab.sent(FetchRequest)
    plain = FetchedPartition()
    leader = type(plain.current_leader)(leader_id=7, leader_epoch=3)
    data = FetchedPartition(high_watermark=-1, records=b"", current_leader=leader)
    lab.respond(fetch, fetch_response(data, node=Node(7, "node-7", 9093)))
    assert lab.client.state_name == "follower"


def test_a_voter_pauses_between_fetches_that_find_no_leader() -> None:
    lab = RaftLab()
    (fetch,) = lab.sent(FetchRequest)
    data = FetchedPartition(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, records=b""
    )
    no_leader = type(data.current_leader)(leader_id=-1, leader_epoch=0)
    lab.respond(fetch, fetch_response(replace(data, current_leader=no_leader)))
    assert lab.sent(FetchRequest) == []
    lab.wait(QuorumConfig().retry_backoff_ms - 1)
    assert lab.sent(FetchRequest) == []
    lab.wait(1)
    assert len(lab.sent(FetchRequest)) == 1


def test_describe_quorum_is_answered_by_the_leader() -> None:
    request = DescribeQuorumRequest(
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),)),)
    )
    lab = RaftLab()
    refused = lab.request(request)
    assert isinstance(refused, DescribeQuorumResponse)
    assert refused.topics[0].partitions[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lab.become_leader()
    lab.request(a_fetch(1, 1, (1, 1)))
    lab.request(a_fetch(7, 1, (0, 0)))
    described = lab.request(request)
    assert isinstance(described, DescribeQuorumResponse)
    partition = described.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 1, 1)
    ends = {each.replica_id: each.log_end_offset for each in partition.current_voters}
    assert ends == {0: 1, 1: 1, 2: -1}
    assert [each.replica_id for each in partition.observers] == [7]
