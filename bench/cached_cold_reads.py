"""Three consumers that lag one after the other, with and without a cache directory.

The log is on a disk with throttled reads, the cache on the machine's own. Each consumer reads all
cold records before the next one starts. Where there can be no throttled disk, the benchmark says
why and measures nothing.
"""

import sys
import tempfile
import time
from typing import Final

from bench.cold_reads import COLD_TOPIC, drop_from_cache, fill_cold_topic
from bench.harness import Bench
from bench.processes import broker_on
from bench.raw_requests import RawReader
from bench.throttled_disk import ThrottledDisk, throttled_disk, why_unavailable
from bench.topics import create_topic

DISK_BYTES: Final = 2_000_000_000
COLD_BYTES: Final = 200_000_000
READ_BYTES_PER_SECOND: Final = 40_000_000
CONSUMERS: Final = 3

# Name, options of the broker, and how often the slow disk may be read. An incomplete batch at the
# end of a response is read again at the beginning of the next one: 7% with these batches.
_MODES: Final = (
    ("no cache", (), None),
    ("cache, kept at the second read", ("headwater.cache.min.reads=2",), 2.2),
    ("cache, kept at the first read", ("headwater.cache.min.reads=1",), 1.1),
)


def measure(bench: Bench) -> None:
    reason = why_unavailable()
    if reason is not None:
        print(f"skipped: lagging consumers with a cache directory: {reason}", file=sys.stderr)
        return
    for name, options, at_most in _MODES:
        with (
            throttled_disk(DISK_BYTES, READ_BYTES_PER_SECOND) as disk,
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as cache,
        ):
            given = (*options, f"headwater.cache.dir={cache}") if options else ()
            _measure_on(bench, disk, name, given, at_most)


def _measure_on(
    bench: Bench, disk: ThrottledDisk, name: str, options: tuple[str, ...], at_most: float | None
) -> None:
    directory = disk.path / "data"
    with broker_on(directory, *options) as server:
        disk.throttle(server.pid)
        create_topic(server, COLD_TOPIC)
        records = fill_cold_topic(server, COLD_BYTES)
        segments = sorted((directory / f"{COLD_TOPIC}-0").glob("*.log"))
        size = sum(path.stat().st_size for path in segments)
        read_before = disk.read_bytes()
        for consumer in range(CONSUMERS):
            drop_from_cache(segments)
            began = time.perf_counter()
            reader = RawReader(server.port, topic=COLD_TOPIC)
            while reader.offset < records:
                reader.read()
            reader.close()
            took = time.perf_counter() - began
            bench.record(f"{name}: lagging consumer {consumer + 1}", size / took / 1e6, "MB/s")
        bench.record(
            f"{name}: bytes read from the slow disk, for each cold byte",
            (disk.read_bytes() - read_before) / size,
            "",
            compared_with=f"{CONSUMERS} consumers",
            at_most=at_most,
        )
