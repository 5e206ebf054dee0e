"""Start time of a broker, and its memory when idle."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.harness import Bench, in_turn
from bench.processes import broker
from bench.topics import create_topic

ROUNDS: Final = 7
PARTITIONS: Final = 1_000
MIB: Final = 1_048_576


def measure(bench: Bench) -> None:
    rounds = in_turn({"broker": _ready_seconds, "python": _interpreter_seconds}, ROUNDS)
    medians = {label: statistics.median(seconds) for label, seconds in rounds.items()}
    bench.record(
        "ready, with an empty directory",
        medians["broker"],
        "s",
        compared_with=f"{medians['python']:.3f} s of an interpreter that does nothing",
        at_most=0.7,
    )
    with broker() as (server, directory):
        bench.record("memory at rest", server.resident_bytes / MIB, "MiB", at_most=90)
        create_topic(server, "many", PARTITIONS)
        _await_folders(directory)
        name = f"memory at rest with {PARTITIONS:,} partitions"
        bench.record(name, server.resident_bytes / MIB, "MiB")


def _ready_seconds() -> float:
    with broker() as (server, _):
        return server.ready_seconds


def _interpreter_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def _await_folders(directory: Path) -> None:
    """Wait for the partition directories, which are created in the background and cost memory."""
    for _ in range(600):
        if len(list(directory.glob("many-*"))) == PARTITIONS:
            return
        time.sleep(0.1)
    raise TimeoutError("not all partitions were opened")
