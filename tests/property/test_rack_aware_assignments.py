"""Rack-aware assignors (KIP-881): balanced first, then same rack, then sticky."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.assignors import COOPERATIVE_STICKY, RANGE, STICKY, Assignor, GroupMember
from headwater.client.assignors.assignor import Assignment
from headwater.client.assignors.racks import is_near
from headwater.common.ids import TopicPartition

RACKS = ["a", "b", "c"]
quick = settings(max_examples=80)
heeding = pytest.mark.parametrize(
    "assignor", [RANGE, STICKY, COOPERATIVE_STICKY], ids=lambda each: each.name
)


Given = tuple[list[GroupMember], dict[str, int], dict[TopicPartition, frozenset[str]]]


@st.composite
def groups(draw: st.DrawFn) -> Given:
    counts = {topic: draw(st.integers(1, 6)) for topic in draw(st.sampled_from(["t", "tu"]))}
    members = [
        GroupMember(
            member_id=f"m{number}",
            topics=frozenset(counts),
            rack_id=draw(st.none() | st.sampled_from(RACKS)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    racks = {
        TopicPartition(topic, number): frozenset(draw(st.sets(st.sampled_from(RACKS), max_size=2)))
        for topic, count in counts.items()
        for number in range(count)
    }
    return members, counts, racks


def dealt_near(assignor: Assignor, group: Given) -> Assignment:
    members, counts, racks = group
    assert assignor.assign_near is not None
    return assignor.assign_near(counts, members, racks)


@heeding
@quick
@given(group=groups())
def test_every_partition_has_one_owner_as_balanced_as_without_racks(
    assignor: Assignor, group: Given
) -> None:
    _, counts, racks = group
    dealt = dealt_near(assignor, group)
    assert sorted(place for share in dealt.values() for place in share) == sorted(racks)
    # Range is balanced within each topic, sticky assignors over all of them.
    for topics in [[each] for each in counts] if assignor is RANGE else [list(counts)]:
        shares = [sum(place.topic in topics for place in share) for share in dealt.values()]
        assert max(shares) - min(shares) <= 1


@quick
@given(group=groups())
def test_assignment_is_stable(group: Given) -> None:
    """Otherwise a cooperative group, which rebalances after each move, would never be stable."""
    members, counts, racks = group
    for assignor in (STICKY, COOPERATIVE_STICKY):
        owned = dealt_near(assignor, group)
        for _ in range(4):
            before = owned
            owners = [
                replace(each, owned=tuple(owned[each.member_id]), generation_id=1)
                for each in members
            ]
            owned = dealt_near(assignor, (owners, counts, racks))
        assert owned == before


@quick
@given(group=groups())
def test_no_partition_of_a_sticky_group_is_in_another_rack_while_a_near_member_has_capacity(
    group: Given,
) -> None:
    members, _, racks = group
    dealt = dealt_near(STICKY, group)
    least = min(map(len, dealt.values()))
    for owner in members:
        for place in dealt[owner.member_id]:
            if owner.rack_id and not is_near(owner, place, racks):
                near = [each for each in members if each.rack_id and is_near(each, place, racks)]
                # A member is full with the common share, unless the owner has more.
                assert all(
                    len(dealt[each.member_id]) >= max(least, len(dealt[owner.member_id]) - 1)
                    for each in near
                )
