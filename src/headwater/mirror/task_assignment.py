"""How partitions are dealt out to tasks: by slots, whose number never changes.

What a reader would get wrong: a topic and a slot are also a transactional id. A task that takes it
over fences whoever wrote for it before, so a partition must always have the same one, whichever
mirror copies it; that is why the number of slots is no setting. And mirrors of other topics must
not have it, or they would fence each other for ever; that is why the topic is part of it.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.mirror.offset_map import Run

SLOTS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRange:
    """Offsets of one partition that shall be copied, unless that was done before."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    # The ids of both topics, since names may be used again.
    pair: str
    # The last run that the registry knows of, for when the note has expired.
    last_run: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a task did for one partition."""

    source: TopicPartition
    position: int
    last_run: Run | None = None
    records: int = 0
    size_bytes: int = 0
    # Offsets that were gone before they could be copied.
    lost: int = 0


def task_of(partition: TopicPartition) -> int:
    """The partitions of one topic are in different slots, as far as there are enough."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % SLOTS


def by_task(ranges: Iterable[CopyRange]) -> dict[int, tuple[CopyRange, ...]]:
    found: dict[int, list[CopyRange]] = {}
    for each in ranges:
        found.setdefault(task_of(each.target), []).append(each)
    return {slot: tuple(found[slot]) for slot in sorted(found)}


def by_topic(ranges: Iterable[CopyRange]) -> dict[str, tuple[CopyRange, ...]]:
    """The ranges of a slot that share a transactional id, by the topic that is written to."""
    found: dict[str, list[CopyRange]] = {}
    for each in ranges:
        found.setdefault(each.target.topic, []).append(each)
    return {topic: tuple(parts) for topic, parts in found.items()}


def transactional_id(source_cluster: str, topic: str, slot: int) -> str:
    """Of those who write to the partitions of a copy that are in a slot."""
    return f"headwater-mirror.{source_cluster}.{topic}.{slot}"


def former_transactional_ids(source_cluster: str) -> list[str]:
    """Those of a version in which all topics of a slot shared one."""
    return [f"headwater-mirror.{source_cluster}.{slot}" for slot in range(SLOTS)]
