"""Start time of a broker that was killed with gigabytes in one partition, or in thousands.

What was flushed before the kill need not be checked at the start, and how much that is depends on
the disk. So there are two figures: after a kill under load, and the worst case, where there is no
recovery point and every byte is read and checked.

Note: both are of batches in the page cache, which outlives the process.
"""

import os
import statistics
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness import Bench, in_turn
from bench.processes import broker, broker_on
from bench.raw_requests import (
    PRODUCE_VERSION,
    TOPIC,
    batch_of,
    frame_of,
    produce_frame,
    produce_pipelined,
)
from bench.topics import create_topic
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.storage.log_manager import checkpoints

LOG_BYTES: Final = 5_000_000_000
# About 1 MB and 16 KB.
RECORDS_OF_A_BATCH: Final = {"large": 9_000, "small": 150}
GOAL_SECONDS: Final = 5.0

MANY: Final = 2_000
BYTES_OF_EACH: Final = 1_000_000
ROUNDS: Final = 3
_IN_A_REQUEST: Final = 50
_BATCH_BYTES: Final = 16_000


def measure(bench: Bench) -> None:
    for label, records in RECORDS_OF_A_BATCH.items():
        frame = produce_frame(records)
        with broker() as (server, directory):
            create_topic(server, TOPIC)
            produce_pipelined(server.port, frame, LOG_BYTES // len(frame), owed=32)
            server.kill()
            _record(bench, f"killed under {label} batches", _restart_seconds(directory))
            os.truncate(directory / checkpoints.RECOVERY_POINTS, 0)
            _record(
                bench, f"{label} batches, nothing known as flushed", _restart_seconds(directory)
            )

    _measure_many(bench)


def _measure_many(bench: Bench) -> None:
    """Recover many partitions, and the same bytes in one, with one thread and with two."""
    frames = {label: produce_frame(count) for label, count in RECORDS_OF_A_BATCH.items()}
    with broker() as (many, in_many), broker() as (one, in_one):
        create_topic(many, TOPIC, MANY)
        create_topic(one, TOPIC)
        for first in range(0, MANY, _IN_A_REQUEST):
            frame = _frame_of_many(range(first, first + _IN_A_REQUEST))
            produce_pipelined(many.port, frame, BYTES_OF_EACH // _BATCH_BYTES, owed=1)
        produce_pipelined(
            one.port, frames["small"], MANY * BYTES_OF_EACH // len(frames["small"]), owed=32
        )
        many.kill()
        one.kill()

        def restart(directory: Path, threads: int) -> float:
            os.truncate(directory / checkpoints.RECOVERY_POINTS, 0)
            return _restart_seconds(directory, f"num.recovery.threads.per.data.dir={threads}")

        seconds = {
            label: statistics.median(times)
            for label, times in in_turn(
                {
                    "in one partition": partial(restart, in_one, 1),
                    "1": partial(restart, in_many, 1),
                    "2": partial(restart, in_many, 2),
                },
                ROUNDS,
            ).items()
        }
    alone = seconds["in one partition"]
    total = f"{MANY * BYTES_OF_EACH / 1e9:.0f} GB"
    bench.record(f"ready again: {total} in one partition, nothing known as flushed", alone, "s")
    for threads in ("1", "2"):
        bench.record(
            f"ready again: {total} in {MANY} partitions, {threads} recovery threads",
            seconds[threads],
            "s",
            compared_with=f"{seconds[threads] / alone:.2f} of the same bytes in one partition",
        )


def _frame_of_many(partitions: Iterable[int]) -> bytes:
    """Build a Produce request with a small batch for each partition."""
    batch = memoryview(batch_of(RECORDS_OF_A_BATCH["small"]))
    data = tuple(PartitionProduceData(index=each, records=batch) for each in partitions)
    produced = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(produced,))
    return frame_of(request, PRODUCE_VERSION)


def _restart_seconds(directory: Path, *options: str) -> float:
    with broker_on(directory, *options) as server:
        return server.ready_seconds


def _record(bench: Bench, name: str, seconds: float) -> None:
    bench.record(f"ready again: {name}", seconds, "s", compared_with="5 GB", at_most=GOAL_SECONDS)
