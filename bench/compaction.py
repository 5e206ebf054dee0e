"""Compaction of several logs with one and with two cleaner threads.

The same keys are written to each partition several times. Then brokers with `log.cleaner.threads`
1 and 2 compact copies of the same directory, in alternating rounds. The time is from the start of
the broker until the dirty logs have been compacted.

Note: with as many busy cores as threads, a second thread cannot help. The load average in the
result file says whether other work was running.
"""

import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, Producer

from bench.harness import Bench, in_turn
from bench.processes import broker_on

PARTITIONS: Final = 4
KEYS: Final = 20_000
PASSES: Final = 25
VALUE: Final = bytes(100)
ROUNDS: Final = 3
TOPIC: Final = "compacted"
_DEADLINE_S: Final = 600.0
_CLEANER: Final = "log.cleaner.backoff.ms=100"


def measure(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as parent:
        filled = Path(parent) / "filled"
        _fill(filled)
        log_bytes = _log_bytes(filled)
        bench.record("bytes before compaction", log_bytes / 1e6, "MB")
        seconds = {
            label: statistics.median(times)
            for label, times in in_turn(
                {str(threads): partial(_compact, filled, threads) for threads in (1, 2)}, ROUNDS
            ).items()
        }
    for threads in ("1", "2"):
        bench.record(
            f"{PARTITIONS} logs compacted, log.cleaner.threads={threads}", seconds[threads], "s"
        )
    bench.record("with two threads", seconds["2"] / seconds["1"], "of the time with one")


def _fill(directory: Path) -> None:
    with broker_on(directory, "log.cleaner.enable=false") as server:
        admin = AdminClient({"bootstrap.servers": server.address, "log_level": 3})
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": "4194304",
            "min.cleanable.dirty.ratio": "0.01",
            "flush.messages": "100000",
        }
        for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=config)]).values():
            made.result(timeout=30)
        producer = Producer(
            {
                "bootstrap.servers": server.address,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for _ in range(PASSES):
            for number in range(KEYS):
                for partition in range(PARTITIONS):
                    producer.produce(TOPIC, VALUE, b"%d" % number, partition)
                producer.poll(0)
            producer.flush(60)


def _compact(filled: Path, threads: int) -> float:
    """Return the seconds from the start of a broker until the logs are compacted."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as parent:
        directory = Path(shutil.copytree(filled, Path(parent) / "data"))
        began = time.perf_counter()
        with broker_on(directory, f"log.cleaner.threads={threads}", _CLEANER):
            while not _is_compacted(directory):
                if time.perf_counter() - began > _DEADLINE_S:
                    raise TimeoutError(f"no compaction within {_DEADLINE_S} s")
                time.sleep(0.02)
            return time.perf_counter() - began


def _is_compacted(directory: Path) -> bool:
    """Whether the cleaner's checkpoint names every partition."""
    try:
        lines = (directory / "cleaner-offset-checkpoint").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return False
    found = [line.split() for line in lines[2:]]
    return sum(topic == TOPIC and int(offset) > 0 for topic, _, offset in found) == PARTITIONS


def _log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"{TOPIC}-*/*.log"))
