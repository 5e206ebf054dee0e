"""Properties of every server-side assignor, for any group."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import (
    Assignment,
    Assignor,
    MemberSpec,
    TopicIdPartition,
)
from headwater.coordinator.assignors.range_assignor import assign_ranges
from headwater.coordinator.assignors.uniform_assignor import assign_uniformly

Group = tuple[dict[str, MemberSpec], dict[TopicId, int]]

TOPICS = [TopicId(bytes([number]) * 16) for number in range(1, 6)]
quick = settings(max_examples=50)
both = pytest.mark.parametrize("assign", [assign_uniformly, assign_ranges])


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> Group:
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9)))
    names = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=7))
    subsets = st.lists(st.sampled_from(sorted(counts)), unique=True) if counts else st.just([])
    shared = draw(subsets)
    # A member may have owned what no longer exists, and several may claim one partition.
    anything = st.builds(TopicIdPartition, st.sampled_from(TOPICS), st.integers(0, 11))
    return {
        name: MemberSpec(
            topics=tuple(sorted(shared if alike else draw(subsets))),
            owned=frozenset(draw(st.lists(anything, max_size=12))),
            instance_id=draw(st.none() | st.just(name[::-1] + name)),
        )
        for name in names
    }, counts


def wanted(group: Group) -> set[TopicIdPartition]:
    members, counts = group
    topics = {topic_id for member in members.values() for topic_id in member.topics}
    return {
        TopicIdPartition(topic_id, partition)
        for topic_id in topics
        for partition in range(counts[topic_id])
    }


def holding(members: Mapping[str, MemberSpec], assignment: Assignment) -> dict[str, MemberSpec]:
    """Return the members with their assignment."""
    return {
        name: MemberSpec(
            topics=member.topics, owned=assignment[name], instance_id=member.instance_id
        )
        for name, member in members.items()
    }


@both
@quick
@given(group=groups())
def test_every_subscribed_partition_has_exactly_one_subscribed_owner(
    assign: Assignor, group: Group
) -> None:
    members, counts = group
    assignment = assign(members, counts)
    owners = Counter(each for partitions in assignment.values() for each in partitions)
    assert set(assignment) == set(members)
    assert owners == Counter(wanted(group))
    for name, partitions in assignment.items():
        assert {each.topic_id for each in partitions} <= set(members[name].topics)


@both
@quick
@given(group=groups())
def test_order_of_members_does_not_matter(assign: Assignor, group: Group) -> None:
    members, counts = group
    assert assign(dict(reversed(members.items())), counts) == assign(members, counts)


@both
@quick
@given(group=groups())
def test_assignment_is_stable(assign: Assignor, group: Group) -> None:
    members, counts = group
    assignment = assign(members, counts)
    assert assign(holding(members, assignment), counts) == assignment


@quick
@given(group=groups(alike=True))
def test_members_with_the_same_subscription_differ_by_at_most_one(group: Group) -> None:
    loads = [len(partitions) for partitions in assign_uniformly(*group).values()]
    assert max(loads, default=0) - min(loads, default=0) <= 1


@quick
@given(group=groups())
def test_no_chain_of_moves_improves_the_balance(group: Group) -> None:
    members, counts = group
    assignment = assign_uniformly(members, counts)
    reach = {name: {name} for name in members}
    for _ in members:
        for name in members:
            for taker in members:
                for middle in sorted(reach[name]):
                    held = {each.topic_id for each in assignment[middle]}
                    if held & set(members[taker].topics):
                        reach[name].add(taker)
    for name in members:
        for taker in sorted(reach[name]):
            assert len(assignment[taker]) >= len(assignment[name]) - 1


@quick
@given(group=groups(alike=True))
def test_new_member_takes_its_share_and_nothing_else_moves(group: Group) -> None:
    members, counts = group
    before = assign_uniformly(members, counts)
    topics = next((member.topics for member in members.values()), ())
    after = assign_uniformly(
        {**holding(members, before), "newcomer": MemberSpec(topics=topics)}, counts
    )
    assert all(after[name] <= before[name] for name in members)


@quick
@given(group=groups(alike=True), which=st.integers(0, 6))
def test_when_a_member_leaves_the_others_keep_their_partitions(group: Group, which: int) -> None:
    members, counts = group
    before = assign_uniformly(members, counts)
    rest = holding(members, before)
    if rest:
        del rest[sorted(rest)[which % len(rest)]]
    after = assign_uniformly(rest, counts)
    assert all(before[name] <= after[name] for name in rest)


@quick
@given(group=groups(alike=True))
def test_no_member_loses_more_than_its_excess(group: Group) -> None:
    members, counts = group
    assignment = assign_uniformly(members, counts)
    share, extras = divmod(len(wanted(group)), max(1, len(members)))
    largest = share + (extras > 0)
    exclusive = Counter(each for member in members.values() for each in member.owned)
    for name, member in members.items():
        mine = {each for each in member.owned & wanted(group) if exclusive[each] == 1}
        # A partition claimed by several counts as kept by the one that keeps it.
        assert len(assignment[name] & member.owned) >= min(len(mine), share)
    if not extras:
        assert all(len(partitions) == largest for partitions in assignment.values())
