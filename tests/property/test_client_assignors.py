"""Properties of every client-side assignor, for any group."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.assignors import (
    ASSIGNORS,
    COOPERATIVE_STICKY,
    STICKY,
    Assignor,
    GroupMember,
)
from headwater.common.ids import TopicPartition
from headwater.protocol.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    named_partitions,
    partitions_of,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)

Group = tuple[list[GroupMember], dict[str, int]]
TOPICS = ["t1", "t2", "t3", "t4"]
quick = settings(max_examples=60)
any_partition = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 9))


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, fresh: bool = False) -> Group:
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8)))
    names = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6))
    subsets = st.frozensets(st.sampled_from(TOPICS))
    shared = draw(subsets)
    claims = st.just([]) if fresh else st.lists(any_partition, max_size=10)
    members = [
        GroupMember(
            member_id=name,
            topics=shared if alike else draw(subsets),
            owned=tuple(draw(claims)),
            generation_id=draw(st.integers(-1, 3)),
            group_instance_id=draw(st.none() | st.just(name[::-1] + name)),
        )
        for name in names
    ]
    return members, counts


def wanted(group: Group) -> set[TopicPartition]:
    members, counts = group
    return {
        TopicPartition(topic, number)
        for member in members
        for topic in member.topics
        for number in range(counts.get(topic, 0))
    }


def holding(
    members: Sequence[GroupMember], assignment: dict[str, list[TopicPartition]], generation: int
) -> list[GroupMember]:
    """Return the members with their assignment."""
    return [
        replace(member, owned=tuple(assignment[member.member_id]), generation_id=generation)
        for member in members
    ]


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=lambda each: each.name)
@quick
@given(group=groups())
def test_no_partition_is_assigned_twice_or_to_a_member_without_subscription(
    assignor: Assignor, group: Group
) -> None:
    members, counts = group
    assignment = assignor.assign(counts, members)
    given_out = [partition for owned in assignment.values() for partition in owned]
    assert assignment.keys() == {member.member_id for member in members}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= wanted(group)
    for member in members:
        assert {partition.topic for partition in assignment[member.member_id]} <= member.topics
    if assignor is not COOPERATIVE_STICKY:
        assert set(given_out) == wanted(group)


@quick
@given(group=groups())
def test_sticky_assignment_is_balanced(group: Group) -> None:
    members, counts = group
    assignment = STICKY.assign(counts, members)
    topics = {member.member_id: member.topics for member in members}
    for rich, owned in assignment.items():
        for poor, little in assignment.items():
            if any(partition.topic in topics[poor] for partition in owned if rich != poor):
                assert len(owned) <= len(little) + 1


@quick
@given(group=groups(alike=True))
def test_sticky_assignment_is_stable(group: Group) -> None:
    members, counts = group
    first = STICKY.assign(counts, members)
    assert STICKY.assign(counts, holding(members, first, 9)) == first


@quick
@given(group=groups(alike=True, fresh=True), newcomer=st.text("xyz", min_size=1, max_size=2))
def test_new_member_takes_no_more_than_its_share(group: Group, newcomer: str) -> None:
    members, counts = group
    before = STICKY.assign(counts, members)
    topics = members[0].topics if members else frozenset()
    grown = [
        *holding(members, before, 1),
        GroupMember(member_id=newcomer, topics=topics),
    ]
    after = STICKY.assign(counts, grown)
    for member_id, owned in before.items():
        assert set(after[member_id]) <= set(owned)


@quick
@given(group=groups())
def test_cooperative_rebalance_converges_and_never_assigns_an_owned_partition(
    group: Group,
) -> None:
    """KIP-429: members revoke lost partitions and rejoin, until no one has to."""
    members, counts = group
    for generation in range(10, 16):
        claimed = {partition: member.member_id for member in members for partition in member.owned}
        assignment = COOPERATIVE_STICKY.assign(counts, members)
        for member in members:
            for partition in set(assignment[member.member_id]) - set(member.owned):
                assert partition not in claimed
        is_settled = all(
            set(member.owned) <= set(assignment[member.member_id]) for member in members
        )
        members = holding(members, assignment, generation)
        if is_settled:
            break
    else:
        pytest.fail("the group never settles")
    assert {partition for member in members for partition in member.owned} == wanted(group)


@given(
    topics=st.lists(st.sampled_from(TOPICS), unique=True),
    owned=st.frozensets(any_partition),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | st.text(max_size=5),
    version=st.integers(0, 3),
)
def test_subscriptions_survive_a_round_trip_as_far_as_their_version_allows(
    topics: list[str],
    owned: frozenset[TopicPartition],
    generation: int,
    rack: str | None,
    version: int,
) -> None:
    subscription = Subscription(
        topics=tuple(topics),
        owned_partitions=named_partitions(owned),
        generation_id=generation,
        rack_id=rack,
    )
    read = read_subscription(write_subscription(subscription, version))
    assert read == Subscription(
        topics=tuple(topics),
        owned_partitions=named_partitions(owned) if version >= 1 else (),
        generation_id=generation if version >= 2 else -1,
        rack_id=rack if version >= 3 else None,
    )


@given(owned=st.frozensets(any_partition))
def test_assignments_survive_a_round_trip(owned: frozenset[TopicPartition]) -> None:
    assignment = ConsumerAssignment(assigned_partitions=named_partitions(owned))
    read = read_assignment(write_assignment(assignment))
    assert set(partitions_of(read.assigned_partitions)) == owned
