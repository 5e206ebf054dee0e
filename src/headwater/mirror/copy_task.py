"""A task as Spark runs it: everything that it needs comes with it, and is made in the worker."""

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
    """What one task shall copy; it is sent to the worker."""

    source_cluster: str
    slot: int
    ranges: tuple[CopyRange, ...]
    # Not for logs: logins are among them.
    source: Mapping[str, str] = field(repr=False)
    target: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    is_exactly_once: bool
    chunk_bytes: int
    slice_ms: int


class TasksFailed(HeadwaterError):
    """Tasks have failed, and their repetitions too."""


def run_task(task: CopyTask) -> list[Copied]:
    """Runs in a worker of Spark."""
    until_ms = _steady_ms() + task.slice_ms
    copied: list[Copied] = []
    try:
        for ranges, settings in _turns(task):
            left_ms = until_ms - _steady_ms()
            if copied and left_ms <= 0:
                break
            copied += _run_turn(task, ranges, settings, left_ms)
    except KafkaError:
        drop_reader(task.source)
        drop_reader(task.target)
        raise
    return copied


def end_former_tasks(source_cluster: str, admin: Admin, producer: Mapping[str, str]) -> None:
    """Fence tasks of a version whose transactional ids were others, should there still be any."""
    known = {each.transactional_id for each in admin.list_transactions()}
    for each in former_transactional_ids(source_cluster):
        if each in known:
            with Producer({**producer, "transactional.id": each}) as former:
                former.init_transactions()


def _turns(task: CopyTask) -> Iterator[tuple[tuple[CopyRange, ...], dict[str, str]]]:
    """What is copied by one producer, and its settings."""
    if not task.is_exactly_once:
        yield task.ranges, dict(task.producer)
        return
    for topic, ranges in by_topic(task.ranges).items():
        name = transactional_id(task.source_cluster, topic, task.slot)
        yield ranges, {**task.producer, "transactional.id": name}


def _run_turn(
    task: CopyTask, ranges: tuple[CopyRange, ...], settings: dict[str, str], slice_ms: int
) -> list[Copied]:
    with Producer(settings) as producer:
        return PartitionCopy(
            task.source_cluster,
            source=cached_reader(task.source),
            producer=producer,
            notebook=cached_reader(task.target),
            is_exactly_once=task.is_exactly_once,
            chunk_bytes=task.chunk_bytes,
            slice_ms=slice_ms,
            steady_ms=_steady_ms,
        ).run(ranges)


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000
