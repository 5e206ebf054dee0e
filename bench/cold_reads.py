"""Effect of a lagging consumer on a tailing one.

Four gigabytes are written and dropped from the page cache. Then a tailing consumer is measured
alternately alone and while another one reads the cold range.

Note: the lagging consumer is a process that decodes no records, because its CPU time would
otherwise be attributed to the broker.
"""

import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.broker_requests import Tail, percentiles_us
from bench.harness import Bench
from bench.processes import Server, broker
from bench.raw_requests import TOPIC, RawReader, produce_frame, produce_pipelined
from bench.topics import create_topic
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.io.page_cache_residency import CachestatResidency, pages_in

COLD_TOPIC: Final = "cold"
COLD_BYTES: Final = 4_000_000_000
RECORDS_OF_A_FRAME: Final = 9_000
ROUNDS: Final = 4
QUIET_SECONDS: Final = 4.0


def measure(bench: Bench) -> None:
    with broker() as (server, directory):
        create_topic(server, TOPIC)
        create_topic(server, COLD_TOPIC)
        records = fill_cold_topic(server)
        segments = sorted((directory / f"{COLD_TOPIC}-0").glob("*.log"))
        drop_from_cache(segments)
        bench.record("cold bytes", sum(map(_size, segments)) / 1e9, "GB", at_least=4)
        bench.record("cold range resident before", resident_share(segments), "", at_most=0.01)
        cpu_before = server.cpu_seconds
        with Tail(server.port) as tail:
            quiet, lagging = _rounds(tail, server, records)
        bench.record("CPU time of the broker meanwhile", server.cpu_seconds - cpu_before, "s")
        _record(bench, quiet, lagging)
        bench.record("cold range resident after", resident_share(segments), "", at_most=0.05)
        tails = (directory / f"{TOPIC}-0").glob("*.log")
        # Not all of it: about 1% was observed to be gone for an unknown reason. Proactive reclaim
        # by the kernel (DAMON) is one suspect.
        bench.record("tail resident after", resident_share(tails), "", at_least=0.95)


def _record(bench: Bench, quiet: list[list[float]], lagging: list[list[float]]) -> None:
    for index, label in enumerate(("p50", "p99", "p99.9")):
        alone = statistics.median(each[index] for each in quiet)
        beside = statistics.median(each[index] for each in lagging)
        bench.record(f"tailing consumer alone, {label}", alone, "us")
        bench.record(f"tailing consumer beside a lagging one, {label}", beside, "us")
        bench.record(
            f"rise of {label}",
            beside / alone,
            "times",
            compared_with="the tailing consumer alone",
            at_most=1.5 if label == "p99" else None,
        )


def _rounds(
    tail: Tail, server: Server, records: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Return percentiles of the tailing consumer alone and with the lagging one, per round."""
    tail.run(1)
    quiet, lagging = [], []
    for turn in range(ROUNDS):
        quiet.append(percentiles_us(tail.run(QUIET_SECONDS)))
        first, last = (records * each // ROUNDS for each in (turn, turn + 1))
        command = [sys.executable, "-m", "bench.cold_reads"]
        arguments = [str(each) for each in (server.port, first, last)]
        with subprocess.Popen([*command, *arguments]) as reader:
            is_over = threading.Event()
            threading.Thread(target=_set_at_end, args=(reader, is_over)).start()
            lagging.append(percentiles_us(tail.run(0, also_until=is_over)))
        assert not reader.returncode, "the lagging reader failed"
    return quiet, lagging


def _set_at_end(reader: "subprocess.Popen[bytes]", is_over: threading.Event) -> None:
    reader.wait()
    is_over.set()


def fill_cold_topic(server: Server, size: int = COLD_BYTES) -> int:
    """Write at least `size` bytes; return the number of records."""
    frame = produce_frame(RECORDS_OF_A_FRAME, topic=COLD_TOPIC)
    count = -(-size // len(frame)) + 1
    produce_pipelined(server.port, frame, count, owed=8)
    return count * RECORDS_OF_A_FRAME


def drop_from_cache(segments: Iterable[Path]) -> None:
    """Write segments to disk and drop their pages."""
    for segment in segments:
        with segment.open("rb+") as file:
            # Only pages that are on disk can be dropped.
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident_share(segments: Iterable[Path]) -> float:
    """Return which part of the segments' pages is in the page cache."""
    residency, disk = CachestatResidency(), OsDisk()
    resident = total = 0
    for segment in segments:
        file, size = disk.open(segment), _size(segment)
        resident += residency.resident_pages(file, 0, size)
        total += pages_in(0, size)
        file.close()
    return resident / total


def _size(path: Path) -> int:
    return path.stat().st_size


def _lag(port: int, first: int, last: int) -> None:
    """Read from one offset to another as fast as possible."""
    reader = RawReader(port, topic=COLD_TOPIC)
    reader.offset = first
    while reader.offset < last:
        reader.read()
    reader.close()


if __name__ == "__main__":
    _lag(*map(int, sys.argv[1:]))
