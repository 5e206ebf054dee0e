"""Voter sets and how they may change."""

from headwater.common.ids import TopicId
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet


def voter(node_id: int, directory: int = 1, port: int = 9093) -> VoterNode:
    return VoterNode(
        key=ReplicaKey(node_id, TopicId(bytes([directory] * 16))),
        endpoints=(Endpoint("CONTROLLER", "localhost", port),),
    )


THREE = VoterSet.of([voter(3), voter(1), voter(2)])


def test_voters_are_in_the_order_of_their_ids() -> None:
    assert THREE.ids == (1, 2, 3)
    assert THREE.majority == 2


def test_a_replaced_disk_is_no_voter() -> None:
    assert THREE.is_voter(voter(1).key)
    assert not THREE.is_voter(voter(1, directory=2).key)


def test_static_voters_have_no_directory_id() -> None:
    static = VoterSet.of([VoterNode(key=ReplicaKey(1), endpoints=())])
    assert static.is_voter(voter(1, directory=7).key)


def test_a_node_id_is_added_once() -> None:
    assert THREE.add_voter(voter(1, directory=2)) is None
    four = THREE.add_voter(voter(4))
    assert four is not None
    assert four.ids == (1, 2, 3, 4)
    assert THREE.has_overlapping_majority(four)


def test_only_a_voter_is_removed_and_never_the_last() -> None:
    assert THREE.remove_voter(voter(1, directory=2).key) is None
    two = THREE.remove_voter(voter(3).key)
    assert two is not None
    one = two.remove_voter(voter(2).key)
    assert one is not None
    assert one.remove_voter(voter(1).key) is None
    assert not THREE.has_overlapping_majority(one)


def test_an_update_replaces_endpoints() -> None:
    updated = THREE.update_voter(voter(2, port=9999))
    assert updated is not None
    assert updated.endpoints_of(2) == (Endpoint("CONTROLLER", "localhost", 9999),)
    assert THREE.update_voter(voter(2, directory=2)) is None


def test_a_voters_record_is_read_as_written() -> None:
    assert VoterSet.from_record(THREE.to_record()) == THREE
