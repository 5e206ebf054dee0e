"""Which topics are copied, what copies are called, and which would go in circles."""

import re

import pytest

from headwater.client import OffsetAndMetadata, TopicPartition
from headwater.common.exceptions import InvalidSetting
from headwater.mirror.group_offset_sync import moves, translated
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.offset_map import MirrorOffsetMap, Run
from headwater.mirror.task_assignment import (
    SLOTS,
    former_transactional_ids,
    task_of,
    transactional_id,
)
from headwater.mirror.topic_naming import Naming, TopicFilter, goes_in_circles, path_of_copy
from headwater.mirror.topic_sync import setting_changes


def test_a_copy_has_the_prefix_or_the_same_name() -> None:
    assert Naming(prefix="west.").of_copy("tea") == "west.tea"
    assert Naming(prefix="").of_copy("tea") == "tea"
    assert not Naming(prefix="west.").is_possible("t" * 245)


def test_topics_of_machinery_are_never_copied() -> None:
    wanted = TopicFilter(topics=re.compile(".*"), exclude=re.compile("tmp-.*"))
    names = ["tea", "__consumer_offsets", "headwater-mirror.internal", "x-replica", "tmp-tea"]
    assert [each for each in names if wanted.has(each)] == ["tea"]


def test_no_topic_comes_back_however_many_clusters_it_has_passed() -> None:
    path = path_of_copy(path_of_copy((), "A"), "B")
    assert goes_in_circles(path, "A")
    assert goes_in_circles(path, "B")
    assert not goes_in_circles(path, "C")


def test_the_partitions_of_a_topic_are_in_different_slots() -> None:
    assert len({task_of(TopicPartition("tea", number)) for number in range(SLOTS)}) == SLOTS


def test_a_transactional_id_is_that_of_one_topic_and_one_slot() -> None:
    """Whoever copies a partition has its id, and whoever copies another topic never has it."""
    topics = ("tea", "tea.1", "1", "1.1")
    ids = {transactional_id("A", topic, slot) for topic in topics for slot in range(SLOTS)}
    assert len(ids) == len(topics) * SLOTS
    assert ids.isdisjoint(former_transactional_ids("A"))


def test_settings_are_set_changed_and_taken_back() -> None:
    original = {"retention.ms": "1", "cleanup.policy": "compact"}
    copy = {"retention.ms": "2", "segment.bytes": "3", "cleanup.policy": "compact"}
    assert setting_changes(original, copy) == {"retention.ms": "1", "segment.bytes": None}


def test_a_group_is_moved_forward_and_never_back() -> None:
    tea, other = TopicPartition("tea", 0), TopicPartition("other", 0)
    copy = TopicPartition("a.tea", 0)
    offsets = MirrorOffsetMap()
    offsets.put("recent-0", Run(number=0, source=100, target=0, count=50))
    found = translated(
        {tea: OffsetAndMetadata(120, "mine"), other: OffsetAndMetadata(7)},
        lambda each: (copy, offsets) if each == tea else None,
    )
    assert found == {copy: OffsetAndMetadata(20, "mine")}
    assert moves(found, {}) == found
    assert moves(found, {copy: OffsetAndMetadata(19)}) == found
    assert moves(found, {copy: OffsetAndMetadata(20)}) == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topics": "("}, "topics is no regular expression"),
        ({"alias": "a.b"}, "letters, digits, _ and -"),
        ({"delivery": "twice"}, "delivery must be one of"),
        ({"source_settings": {"group.id": "x"}}, "joins no group"),
        ({"target_settings": {"lingerms": "1"}}, "not a setting of this client"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    change: dict[str, str], reason: str
) -> None:
    given: dict[str, object] = {"topics": "tea", **change}
    with pytest.raises(InvalidSetting, match=reason):
        mirror_options("a:1", "b:1", **given)  # type: ignore[arg-type]
