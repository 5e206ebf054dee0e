"""Uniform assignor: equal numbers, few moves."""

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import MemberSpec, Partitions, TopicIdPartition
from headwater.coordinator.assignors.uniform_assignor import assign_uniformly

CLICKS = TopicId(b"c" * 16)
VIEWS = TopicId(b"v" * 16)


def parts(topic_id: TopicId, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(topic_id, number) for number in numbers)


def test_each_topic_is_spread_over_the_members() -> None:
    members = {name: MemberSpec(topics=(CLICKS, VIEWS)) for name in "ab"}
    assert assign_uniformly(members, {CLICKS: 2, VIEWS: 2}) == {
        "a": parts(CLICKS, 0) | parts(VIEWS, 0),
        "b": parts(CLICKS, 1) | parts(VIEWS, 1),
    }


def test_a_member_above_its_share_gives_up_partitions_of_all_its_topics() -> None:
    members = {
        "a": MemberSpec(topics=(CLICKS, VIEWS), owned=parts(CLICKS, 0, 1) | parts(VIEWS, 0, 1)),
        "b": MemberSpec(topics=(CLICKS, VIEWS)),
    }
    assert assign_uniformly(members, {CLICKS: 2, VIEWS: 2}) == {
        "a": parts(CLICKS, 0) | parts(VIEWS, 0),
        "b": parts(CLICKS, 1) | parts(VIEWS, 1),
    }


def test_partitions_that_do_not_exist_any_more_are_not_assigned() -> None:
    members = {"a": MemberSpec(topics=(CLICKS,), owned=parts(CLICKS, 7) | parts(VIEWS, 0))}
    assert assign_uniformly(members, {CLICKS: 1}) == {"a": parts(CLICKS, 0)}


def test_members_with_different_subscriptions_are_balanced_through_a_third() -> None:
    members = {
        "a": MemberSpec(topics=(CLICKS,), owned=parts(CLICKS, 0, 1, 2)),
        "b": MemberSpec(topics=(CLICKS, VIEWS), owned=parts(VIEWS, 0, 1)),
        "c": MemberSpec(topics=(VIEWS,), owned=parts(VIEWS, 2)),
    }
    assignment = assign_uniformly(members, {CLICKS: 3, VIEWS: 3})
    assert [len(assignment[name]) for name in "abc"] == [2, 2, 2]


def test_a_group_without_members_has_no_assignment() -> None:
    assert assign_uniformly({}, {}) == {}
