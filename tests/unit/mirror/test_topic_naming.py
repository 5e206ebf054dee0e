"""Topic selection, names of copies, cycle detection, options."""

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
from headwater.mirror.topic_naming import Naming, TopicFilter, is_cycle, path_of_copy
from headwater.mirror.topic_sync import setting_changes


def test_copy_has_the_prefix_or_the_same_name() -> None:
    assert Naming(prefix="west.").of_copy("tea") == "west.tea"
    assert Naming(prefix="").of_copy("tea") == "tea"
    assert not Naming(prefix="west.").is_possible("t" * 245)


def test_internal_topics_are_never_copied() -> None:
    wanted = TopicFilter(topics=re.compile(".*"), exclude=re.compile("tmp-.*"))
    names = ["tea", "__consumer_offsets", "headwater-mirror.internal", "x-replica", "tmp-tea"]
    assert [each for each in names if wanted.has(each)] == ["tea"]


def test_no_topic_returns_to_a_cluster_in_its_path() -> None:
    path = path_of_copy(path_of_copy((), "A"), "B")
    assert is_cycle(path, "A")
    assert is_cycle(path, "B")
    assert not is_cycle(path, "C")


def test_partitions_of_a_topic_are_in_different_slots() -> None:
    assert len({task_of(TopicPartition("tea", number)) for number in range(SLOTS)}) == SLOTS


def test_transactional_id_belongs_to_one_topic_and_slot() -> None:
    """The same partition always has the same id, and other topics never share it."""
    topics = ("tea", "tea.1", "1", "1.1")
    ids = {transactional_id("A", topic, slot) for topic in topics for slot in range(SLOTS)}
    assert len(ids) == len(topics) * SLOTS
    assert ids.isdisjoint(former_transactional_ids("A"))


def test_configs_are_set_changed_and_removed() -> None:
    original = {"retention.ms": "1", "cleanup.policy": "compact"}
    copy = {"retention.ms": "2", "segment.bytes": "3", "cleanup.policy": "compact"}
    assert setting_changes(original, copy) == {"retention.ms": "1", "segment.bytes": None}


def test_group_offsets_only_move_forward() -> None:
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
        ({"topics": "("}, "topics is not a regular expression"),
        ({"alias": "a.b"}, "letters, digits, _ and -"),
        ({"delivery": "twice"}, "delivery must be one of"),
        ({"source_settings": {"group.id": "x"}}, "does not join a group"),
        ({"target_settings": {"lingerms": "1"}}, "not a setting of this client"),
    ],
)
def test_invalid_options_are_rejected_before_spark_starts(
    change: dict[str, str], reason: str
) -> None:
    given: dict[str, object] = {"topics": "tea", **change}
    with pytest.raises(InvalidSetting, match=reason):
        mirror_options("a:1", "b:1", **given)  # type: ignore[arg-type]
