"""Range assignor: contiguous ranges, split alike in all topics."""

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import MemberSpec, Partitions, TopicIdPartition
from headwater.coordinator.assignors.range_assignor import assign_ranges

CLICKS = TopicId(b"c" * 16)
VIEWS = TopicId(b"v" * 16)


def parts(topic_id: TopicId, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(topic_id, number) for number in numbers)


def test_topics_of_one_size_are_split_at_the_same_places() -> None:
    """NG-2: the range assignor is for joins."""
    members = {name: MemberSpec(topics=(CLICKS, VIEWS)) for name in "ab"}
    assert assign_ranges(members, {CLICKS: 3, VIEWS: 3}) == {
        "a": parts(CLICKS, 0, 1) | parts(VIEWS, 0, 1),
        "b": parts(CLICKS, 2) | parts(VIEWS, 2),
    }


def test_only_subscribers_share_a_topic() -> None:
    members = {
        "a": MemberSpec(topics=(CLICKS,)),
        "b": MemberSpec(topics=(CLICKS, VIEWS)),
    }
    assert assign_ranges(members, {CLICKS: 2, VIEWS: 2}) == {
        "a": parts(CLICKS, 0),
        "b": parts(CLICKS, 1) | parts(VIEWS, 0, 1),
    }


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    """NG-7: a restart gives a static member a new member id and moves nothing."""
    members = {
        "a": MemberSpec(topics=(CLICKS,)),
        "z": MemberSpec(topics=(CLICKS,), instance_id="one"),
        "m": MemberSpec(topics=(CLICKS,), instance_id="two"),
    }
    assert assign_ranges(members, {CLICKS: 3}) == {
        "z": parts(CLICKS, 0),
        "m": parts(CLICKS, 1),
        "a": parts(CLICKS, 2),
    }


def test_members_beyond_the_number_of_partitions_get_none() -> None:
    members = {name: MemberSpec(topics=(CLICKS,)) for name in "abc"}
    assert assign_ranges(members, {CLICKS: 2}) == {
        "a": parts(CLICKS, 0),
        "b": parts(CLICKS, 1),
        "c": frozenset(),
    }
