"""Assign partitions to tasks by slots, whose number never changes.

Note: topic and slot are part of the transactional id. A task fences the previous task with the same
id, so a partition must always have the same one, whichever mirror copies it; hence the number of
slots is not configurable. Mirrors of different topics must not share an id, or they would keep
fencing each other; hence the topic is part of it.
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
    """Offsets of one partition to copy, unless that was done before."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    # Ids of both topics, since names may be reused.
    pair: str
    # Last run in the checkpoint topic, in case the committed checkpoint has expired.
    last_run: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Result of a task for one partition."""

    source: TopicPartition
    position: int
    last_run: Run | None = None
    records: int = 0
    size_bytes: int = 0
    # Offsets that were deleted before they could be copied.
    lost: int = 0


def task_of(partition: TopicPartition) -> int:
    """Slot of a partition. Partitions of one topic get different slots, up to `SLOTS`."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % SLOTS


def by_task(ranges: Iterable[CopyRange]) -> dict[int, tuple[CopyRange, ...]]:
    found: dict[int, list[CopyRange]] = {}
    for each in ranges:
        found.setdefault(task_of(each.target), []).append(each)
    return {slot: tuple(found[slot]) for slot in sorted(found)}


def by_topic(ranges: Iterable[CopyRange]) -> dict[str, tuple[CopyRange, ...]]:
    """Ranges of a slot that share a transactional id, by target topic."""
    found: dict[str, list[CopyRange]] = {}
    for each in ranges:
        found.setdefault(each.target.topic, []).append(each)
    return {topic: tuple(parts) for topic, parts in found.items()}


def transactional_id(source_cluster: str, topic: str, slot: int) -> str:
    """Transactional id for the partitions of a target topic that are in a slot."""
    return f"headwater-mirror.{source_cluster}.{topic}.{slot}"


def former_transactional_ids(source_cluster: str) -> list[str]:
    """Ids of an earlier version, in which all topics of a slot shared one."""
    return [f"headwater-mirror.{source_cluster}.{slot}" for slot in range(SLOTS)]
