"""Start time of a broker that was killed with gigabytes in one partition.

What was flushed before the kill need not be checked at the start, and how much that is depends on
the disk. So there are two figures: after a kill under load, and the worst case, where there is no
recovery point and every byte is read and checked.

Note: both are of batches in the page cache, which outlives the process.
"""

import os
from pathlib import Path
from typing import Final

from bench.harness import Bench
from bench.processes import broker, broker_on
from bench.raw_requests import TOPIC, produce_frame, produce_pipelined
from bench.topics import create_topic
from headwater.storage.log_manager import checkpoints

LOG_BYTES: Final = 5_000_000_000
# About 1 MB and 16 KB.
RECORDS_OF_A_BATCH: Final = {"large": 9_000, "small": 150}
GOAL_SECONDS: Final = 5.0


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


def _restart_seconds(directory: Path) -> float:
    with broker_on(directory) as server:
        return server.ready_seconds


def _record(bench: Bench, name: str, seconds: float) -> None:
    bench.record(f"ready again: {name}", seconds, "s", compared_with="5 GB", at_most=GOAL_SECONDS)
