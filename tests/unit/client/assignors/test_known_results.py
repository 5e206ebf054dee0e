"""Assignors: the examples of Kafka's documentation, and user data."""

import pytest

from headwater.client.assignors import (
    COOPERATIVE_STICKY,
    RANGE,
    ROUND_ROBIN,
    STICKY,
    Assignor,
    GroupMember,
)
from headwater.common.ids import TopicPartition


def member(
    name: str, *topics: str, owned: str = "", generation: int = -1, instance: str | None = None
) -> GroupMember:
    return GroupMember(
        member_id=name,
        topics=frozenset(topics),
        owned=partitions(owned),
        generation_id=generation,
        group_instance_id=instance,
    )


def partitions(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each[:2], int(each[3:])) for each in text.split())


def dealt(assignor: Assignor, counts: dict[str, int], *members: GroupMember) -> dict[str, str]:
    return {
        name: " ".join(map(str, given)) for name, given in assignor.assign(counts, members).items()
    }


def test_range_assigns_consecutive_partitions_and_the_rest_to_the_first_members() -> None:
    both = [member(name, "t0", "t1") for name in ("c1", "c0")]
    assert dealt(RANGE, {"t0": 3, "t1": 3}, *both) == {
        "c1": "t0-2 t1-2",
        "c0": "t0-0 t0-1 t1-0 t1-1",
    }


def test_round_robin_assigns_the_partitions_of_all_topics_in_turn() -> None:
    both = [member(name, "t0", "t1") for name in ("c0", "c1")]
    assert dealt(ROUND_ROBIN, {"t0": 3, "t1": 3}, *both) == {
        "c0": "t0-0 t0-2 t1-1",
        "c1": "t0-1 t1-0 t1-2",
    }


UNEVEN = (member("c0", "t0"), member("c1", "t0", "t1"), member("c2", "t0", "t1", "t2"))


def test_round_robin_skips_members_that_are_not_subscribed() -> None:
    assert dealt(ROUND_ROBIN, {"t0": 1, "t1": 2, "t2": 3}, *UNEVEN) == {
        "c0": "t0-0",
        "c1": "t1-0",
        "c2": "t1-1 t2-0 t2-1 t2-2",
    }


def test_sticky_balances_different_subscriptions_better_than_round_robin() -> None:
    assert dealt(STICKY, {"t0": 1, "t1": 2, "t2": 3}, *UNEVEN) == {
        "c0": "t0-0",
        "c1": "t1-0 t1-1",
        "c2": "t2-0 t2-1 t2-2",
    }


def test_sticky_moves_only_the_partitions_of_the_leaving_member() -> None:
    """Three members with four topics of two partitions; the second leaves."""
    counts = dict.fromkeys(("t0", "t1", "t2", "t3"), 2)
    left = [
        member("c0", *counts, owned="t0-0 t1-1 t3-0", generation=1),
        member("c2", *counts, owned="t1-0 t2-1", generation=1),
    ]
    assert dealt(STICKY, counts, *left) == {
        "c0": "t0-0 t0-1 t1-1 t3-0",
        "c2": "t1-0 t2-0 t2-1 t3-1",
    }


def test_a_partition_that_changes_its_owner_is_first_unassigned() -> None:
    members = [member("a", "t0", owned="t0-0 t0-1", generation=4), member("b", "t0")]
    assert dealt(COOPERATIVE_STICKY, {"t0": 2}, *members) == {"a": "t0-0", "b": ""}
    released = [member("a", "t0", owned="t0-0", generation=5), member("b", "t0", generation=5)]
    assert dealt(COOPERATIVE_STICKY, {"t0": 2}, *released) == {"a": "t0-0", "b": "t0-1"}


def test_a_member_that_missed_a_rebalance_keeps_no_partition_with_a_new_owner() -> None:
    members = [
        member("asleep", "t0", owned="t0-0 t0-1", generation=1),
        member("awake", "t0", owned="t0-0 t0-1", generation=2),
    ]
    assert dealt(STICKY, {"t0": 2}, *members) == {"asleep": "t0-1", "awake": "t0-0"}


def test_a_partition_claimed_twice_in_a_generation_is_unassigned_until_revoked() -> None:
    members = [member(name, "t0", owned="t0-0", generation=3) for name in ("a", "b")]
    assert dealt(COOPERATIVE_STICKY, {"t0": 1}, *members) == {"a": "", "b": ""}


def test_a_partition_claimed_twice_in_a_generation_is_assigned_once() -> None:
    members = [
        member("a", "t0", owned="t0-0 t0-1", generation=3),
        member("b", "t0", owned="t0-0 t0-2", generation=3),
    ]
    assert dealt(STICKY, {"t0": 4}, *members) == {"a": "t0-0 t0-1", "b": "t0-2 t0-3"}


def test_static_members_come_first_sorted_by_instance_id() -> None:
    members = [
        member("a", "t0"),
        member("z", "t0", instance="1"),
        member("y", "t0", instance="2"),
    ]
    assert dealt(RANGE, {"t0": 3}, *members) == {"a": "t0-2", "z": "t0-0", "y": "t0-1"}


@pytest.mark.parametrize("assignor", [RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY])
def test_a_missing_topic_is_not_assigned(assignor: Assignor) -> None:
    assert dealt(assignor, {}, member("a", "t0")) == {"a": ""}


def test_sticky_reads_the_user_data_of_old_members() -> None:
    """Subscriptions of version 0 have no owned partitions; the user data has them."""
    data = STICKY.user_data(partitions("t0-1"), 7)
    assert data == (b"\0\0\0\1" + b"\0\2t0" + b"\0\0\0\1" + b"\0\0\0\1" + b"\0\0\0\7")
    old = GroupMember(member_id="old", topics=frozenset({"t0"}), user_data=data)
    assert dealt(STICKY, {"t0": 2}, old, member("a", "t0")) == {"old": "t0-1", "a": "t0-0"}


def test_cooperative_members_repeat_their_generation_in_the_user_data() -> None:
    assert COOPERATIVE_STICKY.user_data(partitions("t0-1"), 7) == b"\0\0\0\7"


def test_unknown_user_data_is_ignored() -> None:
    odd = GroupMember(member_id="odd", topics=frozenset({"t0"}), user_data=b"\xff" * 11)
    assert dealt(STICKY, {"t0": 1}, odd) == {"odd": "t0-0"}


def near(rack: str) -> GroupMember:
    """A member named after its rack."""
    return GroupMember(member_id=rack, topics=frozenset({"t0"}), rack_id=rack)


@pytest.mark.parametrize("assignor", [RANGE, STICKY, COOPERATIVE_STICKY], ids=lambda a: a.name)
def test_a_member_gets_partitions_with_a_replica_in_its_rack(assignor: Assignor) -> None:
    """KIP-881. Without racks it would be the other way round."""
    racks = {
        TopicPartition("t0", 0): frozenset({"r2"}),
        TopicPartition("t0", 1): frozenset({"r1", "r2"}),
        TopicPartition("t0", 2): frozenset({"r1"}),
    }
    assert assignor.assign_near is not None
    dealt = assignor.assign_near({"t0": 3}, [near("r1"), near("r2")], racks)
    assert dealt["r2"] == [TopicPartition("t0", 0)]
    assert dealt["r1"] == [TopicPartition("t0", 1), TopicPartition("t0", 2)]


def test_a_sticky_partition_moves_only_to_a_member_in_a_replica_rack() -> None:
    racks = {
        TopicPartition("t0", 0): frozenset({"r2"}),
        TopicPartition("t0", 1): frozenset({"r1"}),
        TopicPartition("t0", 2): frozenset({"r3"}),
        TopicPartition("t0", 3): frozenset({"r3"}),
    }
    members = [
        GroupMember(
            member_id=name,
            topics=frozenset({"t0"}),
            rack_id=name,
            owned=partitions(owned),
            generation_id=1,
        )
        for name, owned in (("r1", "t0-0 t0-3"), ("r2", "t0-1 t0-2"))
    ]
    assert STICKY.assign_near is not None
    assert STICKY.assign_near({"t0": 4}, members, racks) == {
        "r1": [TopicPartition("t0", 1), TopicPartition("t0", 3)],
        "r2": [TopicPartition("t0", 0), TopicPartition("t0", 2)],
    }
