"""A copy task as Spark runs it: self-contained, creates its clients itself."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.client import Admin, Producer
from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError
from headwater.mirror.partition_copy import PartitionCopy
from headwater.mirror.task_assignment import (
    Copied,
    CopyRange,
    by_topic,
    former_transactional_ids,
    transactional_id,
)
from headwater.spark.client_cache import cached_reader, drop_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """Ranges that one task copies, with all settings; it is sent to the worker."""

    source_cluster: str
    slot: int
    ranges: tuple[CopyRange, ...]
    # Hidden in logs, because they contain credentials.
    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    is_exactly_once: bool
    chunk_bytes: int
    slice_ms: int


class TasksFailed(HeadwaterError):
    """Tasks have failed, and their retries too."""


def run_task(task: CopyTask) -> list[Copied]:
    """Run in a Spark worker."""
    until_ms = _steady_ms() + task.slice_ms
    copied: list[Copied] = []
    try:
        for ranges, settings in _ranges_by_producer(task):
            remaining_ms = until_ms - _steady_ms()
            if copied and remaining_ms <= 0:
                break
            copied += _copy_ranges(task, ranges, settings, remaining_ms)
    except KafkaError:
        drop_reader(task.source)
        drop_reader(task.target)
        raise
    return copied


def end_former_tasks(source_cluster: str, admin: Admin, producer: Mapping[str, str]) -> None:
    """Fence tasks of an earlier version, which used other transactional ids."""
    known = {each.transactional_id for each in admin.list_transactions()}
    for each in former_transactional_ids(source_cluster):
        if each in known:
            with Producer({**producer, "transactional.id": each}) as former:
                former.init_transactions()


def _ranges_by_producer(task: CopyTask) -> Iterator[tuple[tuple[CopyRange, ...], dict[str, str]]]:
    """Ranges that one producer copies, and its settings."""
    if not task.is_exactly_once:
        yield task.ranges, dict(task.producer)
        return
    for topic, ranges in by_topic(task.ranges).items():
        name = transactional_id(task.source_cluster, topic, task.slot)
        yield ranges, {**task.producer, "transactional.id": name}


def _copy_ranges(
    task: CopyTask, ranges: tuple[CopyRange, ...], settings: dict[str, str], slice_ms: int
) -> list[Copied]:
    with Producer(settings) as producer:
        return PartitionCopy(
            task.source_cluster,
            source=cached_reader(task.source),
            producer=producer,
            checkpoints=cached_reader(task.target),
            is_exactly_once=task.is_exactly_once,
            chunk_bytes=task.chunk_bytes,
            slice_ms=slice_ms,
            steady_ms=_steady_ms,
        ).run(ranges)


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000
