"""Produce and consume throughput of a broker, compared with a bare broker.

The client is librdkafka with 100-byte records. It is often the slowest of the three processes, so
the same is measured with prebuilt requests, where only the server has work.

Note: CPU seconds per gigabyte are those of the server alone, and are meaningful even if client and
server share cores. The rates are not, but their ratio is.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from bench.harness import Bench, in_turn
from bench.librdkafka import BulkProducer, Consumer
from bench.processes import Server, bare_broker, broker
from bench.raw_requests import TOPIC, VALUE_BYTES, RawReader, produce_frame, produce_pipelined
from bench.topics import create_topic

ROUNDS: Final = 5
RECORDS: Final = 3_000_000
LARGE_FRAMES: Final = 400
RECORDS_OF_A_LARGE_FRAME: Final = 9_000
READ_BYTES: Final = 1_000_000_000

PRODUCER: Final = {
    "acks": "1",
    "linger.ms": "5",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "262144",
}
# The client keeps fetching while its records are queued; otherwise it would pause for a second.
CONSUMER: Final = {"queued.min.messages": "10000000", "fetch.queue.backoff.ms": "1"}

SHARE: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Bytes, time and CPU time of one round."""

    size_bytes: int
    seconds: float
    cpu_seconds: float


def measure(bench: Bench) -> None:
    _compare(
        bench,
        "produce with librdkafka",
        "a bare receive-and-pwrite loop",
        broker=lambda: _fresh(_broker_with_topic, _produce),
        bare=lambda: _fresh(bare_broker, _produce),
    )
    _compare(
        bench,
        "produce, 1 MB requests as they are",
        "a bare receive-and-pwrite loop",
        broker=lambda: _fresh(_broker_with_topic, _replay),
        bare=lambda: _fresh(bare_broker, _replay),
    )
    with broker() as (server, directory):
        create_topic(server, TOPIC)
        _produce(server)
        (segment,) = (directory / f"{TOPIC}-0").glob("*.log")
        with bare_broker(segment) as bare:
            _compare(
                bench,
                "consume with librdkafka",
                "a bare sendfile loop",
                broker=lambda: _measured(server, lambda: _consume(server)),
                bare=lambda: _measured(bare, lambda: _consume(bare)),
            )
            _compare(
                bench,
                "fetch, 1 MiB at a time",
                "a bare sendfile loop",
                broker=lambda: _measured(server, lambda: _read(server)),
                bare=lambda: _measured(bare, lambda: _read(bare)),
            )


def _compare(
    bench: Bench,
    name: str,
    limit: str,
    *,
    broker: Callable[[], Transfer],
    bare: Callable[[], Transfer],
) -> None:
    # The first writes to memory that the machine has not used before are the slowest.
    broker()
    rounds = in_turn({"broker": broker, "bare": bare}, ROUNDS)
    rate = {label: _median_rate(transfers) for label, transfers in rounds.items()}
    cpu = {label: _median_cpu_per_gb(transfers) for label, transfers in rounds.items()}
    bench.record(name, rate["broker"], "MB/s")
    bench.record(f"{name}: the limit", rate["bare"], "MB/s", compared_with=limit)
    share = rate["broker"] / rate["bare"]
    bench.record(f"{name}: share", share, "", compared_with=limit, at_least=SHARE)
    bench.record(
        f"{name}: CPU time of the broker",
        cpu["broker"],
        "s/GB",
        compared_with=f"{cpu['bare']:.2f} s/GB of {limit}",
    )


def _median_rate(transfers: list[Transfer]) -> float:
    return statistics.median(each.size_bytes / 1e6 / each.seconds for each in transfers)


def _median_cpu_per_gb(transfers: list[Transfer]) -> float:
    return statistics.median(each.cpu_seconds / each.size_bytes * 1e9 for each in transfers)


@contextmanager
def _broker_with_topic() -> Iterator[Server]:
    with broker() as (server, _):
        create_topic(server, TOPIC)
        yield server


def _fresh(
    serving: Callable[[], AbstractContextManager[Server]], run: Callable[[Server], int]
) -> Transfer:
    """Run once on a new server whose files are deleted with it and never reach the disk."""
    with serving() as server:
        return _measured(server, lambda: run(server))


def _measured(server: Server, run: Callable[[], int]) -> Transfer:
    cpu_before, began = server.cpu_seconds, time.perf_counter()
    size_bytes = run()
    seconds = time.perf_counter() - began
    return Transfer(
        size_bytes=size_bytes, seconds=seconds, cpu_seconds=server.cpu_seconds - cpu_before
    )


def _produce(server: Server) -> int:
    with BulkProducer(server.port, TOPIC, PRODUCER) as producer:
        producer.produce(bytes(VALUE_BYTES), RECORDS)
    return RECORDS * VALUE_BYTES


def _replay(server: Server) -> int:
    frame = produce_frame(RECORDS_OF_A_LARGE_FRAME)
    produce_pipelined(server.port, frame, LARGE_FRAMES, owed=8)
    return LARGE_FRAMES * len(frame)


def _consume(server: Server) -> int:
    with Consumer(server.port, TOPIC, CONSUMER) as consumer:
        consumer.start(0)
        consumer.skip(RECORDS)
        consumer.stop()
    return RECORDS * VALUE_BYTES


def _read(server: Server) -> int:
    size_bytes = 0
    while size_bytes < READ_BYTES:
        reader = RawReader(server.port)
        while reader.offset < RECORDS:
            size_bytes += reader.read()
        reader.close()
    return size_bytes
