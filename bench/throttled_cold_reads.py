"""Effect of 20% lagging consumers on tailing ones, on a throttled disk.

Four consumers read at the log end, and one of them is measured; a fifth one reads cold segments as
fast as the disk allows. Rounds with and without the fifth alternate. The disk delivers less than
the lagging consumer wants, so that its reads queue. Where there can be no throttled disk, the
benchmark says why and measures nothing.
"""

import statistics
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import Final

from bench.broker_requests import Tail, percentiles_us
from bench.cold_reads import COLD_TOPIC, drop_from_cache, fill_cold_topic, resident_share
from bench.following import Follower
from bench.harness import Bench
from bench.processes import broker_on
from bench.raw_requests import TOPIC, RawReader
from bench.throttled_disk import ThrottledDisk, throttled_disk, why_unavailable
from bench.topics import create_topic

DISK_BYTES: Final = 6_000_000_000
COLD_BYTES: Final = 1_500_000_000
READ_BYTES_PER_SECOND: Final = 20_000_000
OTHER_TAILING: Final = 3
ROUNDS: Final = 5
ROUND_SECONDS: Final = 6.0


def measure(bench: Bench) -> None:
    reason = why_unavailable()
    if reason is not None:
        print(f"skipped: 20% lagging consumers on a throttled disk: {reason}", file=sys.stderr)
        return
    with throttled_disk(DISK_BYTES, READ_BYTES_PER_SECOND) as disk:
        _measure_on(bench, disk)


def _measure_on(bench: Bench, disk: ThrottledDisk) -> None:
    directory = disk.path / "data"
    with ExitStack() as held:
        server = held.enter_context(broker_on(directory))
        disk.throttle(server.pid)
        create_topic(server, TOPIC)
        create_topic(server, COLD_TOPIC)
        records = fill_cold_topic(server, COLD_BYTES)
        segments = sorted((directory / f"{COLD_TOPIC}-0").glob("*.log"))
        drop_from_cache(segments)
        tail = held.enter_context(Tail(server.port))
        for _ in range(OTHER_TAILING):
            held.enter_context(Follower(server.port, TOPIC))
        tail.run(1)
        quiet, lagging, lagged_bytes = [], [], 0
        read_before = disk.read_bytes()
        for turn in range(ROUNDS):
            quiet.append(percentiles_us(tail.run(ROUND_SECONDS)))
            first = records * turn // ROUNDS
            command = [sys.executable, "-m", "bench.throttled_cold_reads", str(server.port)]
            with subprocess.Popen(
                [*command, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as reader:
                assert reader.stdout is not None
                reader.stdout.readline()
                lagging.append(percentiles_us(tail.run(ROUND_SECONDS)))
                lagged_bytes += int(reader.communicate("stop\n")[0])
        read_bytes = disk.read_bytes() - read_before
        share = resident_share(segments)
    for index, label in enumerate(("p50", "p99")):
        alone = statistics.median(each[index] for each in quiet)
        beside = statistics.median(each[index] for each in lagging)
        name = f"throttled disk, tailing consumer, {label}"
        bench.record(f"{name}: alone", alone, "us")
        bench.record(
            f"{name}: beside 20% lagging consumers",
            beside,
            "us",
            compared_with=f"{beside / alone:.2f} times the one alone",
            at_most=1.2 * alone if label == "p99" else None,
        )
    bench.record(
        "throttled disk: lagging consumer",
        lagged_bytes / (ROUNDS * ROUND_SECONDS) / 1e6,
        "MB/s",
        compared_with=f"{READ_BYTES_PER_SECOND / 1e6:.0f} MB/s that the disk delivers",
    )
    bench.record(
        "throttled disk: bytes read from it, for each byte the lagging consumer got",
        read_bytes / max(1, lagged_bytes),
        "",
    )
    bench.record("throttled disk: cold range resident after", share, "", at_most=0.05)


def _lag(port: int, first: int) -> None:
    """Read cold records until a line comes on stdin; print how many bytes those were."""
    stopped = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        stopped.set()

    reader = RawReader(port, topic=COLD_TOPIC)
    reader.offset = first
    total = reader.read()
    print("reading", flush=True)
    threading.Thread(target=wait, daemon=True).start()
    while not stopped.is_set():
        total += reader.read()
    reader.close()
    print(total, flush=True)


if __name__ == "__main__":
    _lag(*map(int, sys.argv[1:]))
