"""A task as Spark runs it: everything that it needs comes with it, and is made in the worker."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client import Producer
from headwater.client.errors import KafkaError
from headwater.model.failures import HeadwaterError
from headwater.pipeline.kept_clients import drop_reader, kept_reader
from headwater.pipeline.mirror.slot_copy import SlotCopy
from headwater.pipeline.mirror.slots import Copied, CopyRange, transactional_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTask:
    """What one task shall copy; it is sent to the worker."""

    source_cluster: str
    slot: int
    ranges: tuple[CopyRange, ...]
    source: Mapping[str, str]
    target: Mapping[str, str]
    producer: Mapping[str, str]
    is_exactly_once: bool
    chunk_bytes: int
    slice_ms: int


class TasksFailed(HeadwaterError):
    """Tasks have failed, and their repetitions too."""


def run_task(task: SlotTask) -> list[Copied]:
    """Runs in a worker of Spark."""
    settings = dict(task.producer)
    if task.is_exactly_once:
        settings["transactional.id"] = transactional_id(task.source_cluster, task.slot)
    try:
        with Producer(settings) as producer:
            return SlotCopy(
                task.source_cluster,
                source=kept_reader(task.source),
                producer=producer,
                notebook=kept_reader(task.target),
                is_exactly_once=task.is_exactly_once,
                chunk_bytes=task.chunk_bytes,
                slice_ms=task.slice_ms,
                steady_ms=lambda: time.monotonic_ns() // 1_000_000,
            ).run(task.ranges)
    except KafkaError:
        drop_reader(task.source)
        drop_reader(task.target)
        raise
