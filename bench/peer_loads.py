"""Loads on a broker: the same load generators with the same settings for each contender.

Note: load generators and broker share two cores, so a rate is that of both together. CPU seconds
per gigabyte are the broker's alone.
"""

import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple

from bench.broker_requests import Tail, percentiles_us
from bench.broker_throughput import CONSUMER, PRODUCER
from bench.librdkafka import BulkProducer, Consumer
from bench.peer_brokers import PeerBroker
from bench.raw_requests import connect, produce_frame
from bench.topics import create_topic
from tests.peers.apache_kafka import run_class
from tests.peers.jars import KAFKA_4_1

LOAD_BYTES: Final = 200_000_000
SIZES: Final = {"100 B": 100, "1 KiB": 1_024, "10 KiB": 10_240}
CODECS: Final = ("none", "lz4", "snappy", "zstd", "gzip")
WARM_UP_BYTES: Final = 500_000_000
# Enough for a dozen records beyond the 99.9th percentile.
TAIL_RATES: Final = {1_000: 12.0, 5_000: 4.0}
TAIL_WARM_UP_SECONDS: Final = 10.0
CONNECTIONS: Final = 100
SMALL_REQUESTS: Final = 20_000

_TOOLS: Final = "org.apache.kafka.tools"
_TOOL_JVM: Final = ("-Xms512m", "-Xmx512m", "-server", "-XX:+UseG1GC")
# A log line, so that it compresses as log lines do.
_LINE: Final = b"2026-11-16T05:36:07Z INFO order 4711 of customer 0815 was paid, total 12.50 EUR; "


class OnGenerated(NamedTuple):
    """Figure of one run. `better` says whether more or less is better."""

    name: str
    value: float
    unit: str
    better: str


def run_all(broker: PeerBroker) -> Iterator[OnGenerated]:
    """Run all loads on a broker that has just started."""
    yield OnGenerated("ready after", broker.ready_seconds, "s", "less")
    yield OnGenerated("resident, idle", broker.resident_bytes / 2**20, "MiB", "less")
    yield from produce_all(broker)
    yield from _consumed(broker)
    yield from _followed(broker)
    yield from _by_many(broker)
    yield from _by_tools(broker)
    yield OnGenerated("resident, after all that", broker.resident_bytes / 2**20, "MiB", "less")


def produce_all(broker: PeerBroker) -> Iterator[OnGenerated]:
    """Warm up, then produce records of every size with every codec."""
    _warm_up(broker)
    for size_name, size in SIZES.items():
        for codec in CODECS:
            yield from _produced(broker, size_name, size, codec)


def _warm_up(broker: PeerBroker) -> None:
    """Warm up, because a JVM compiles hot code and real brokers run for long."""
    create_topic(broker, "warm")
    with BulkProducer(broker.port, "warm", PRODUCER) as producer:
        producer.produce(bytes(1_024), WARM_UP_BYTES // 1_024)
    with Consumer(broker.port, "warm", CONSUMER) as consumer:
        consumer.start(0)
        consumer.skip(WARM_UP_BYTES // 1_024)
        consumer.stop()


def line_of(size: int) -> bytes:
    return (_LINE * (size // len(_LINE) + 1))[:size]


def _topic(size_name: str, codec: str) -> str:
    return f"load-{size_name.replace(' ', '')}-{codec}"


def _produced(broker: PeerBroker, size_name: str, size: int, codec: str) -> Iterator[OnGenerated]:
    topic = _topic(size_name, codec)
    create_topic(broker, topic)
    value = line_of(size)
    settings = {**PRODUCER, "compression.type": codec}
    with BulkProducer(broker.port, topic, settings) as producer:
        rate, cpu = _measured(broker, lambda: producer.produce(value, LOAD_BYTES // size))
    name = f"produce {size_name}, {codec}, acks=1"
    yield OnGenerated(name, rate, "MB/s", "more")
    yield OnGenerated(f"{name}: CPU time", cpu, "s/GB", "less")


def _consumed(broker: PeerBroker) -> Iterator[OnGenerated]:
    for size_name, size in SIZES.items():
        with Consumer(broker.port, _topic(size_name, "none"), CONSUMER) as consumer:
            consumer.start(0)
            rate, cpu = _measured(broker, lambda: consumer.skip(LOAD_BYTES // size))  # noqa: B023
            consumer.stop()
        yield OnGenerated(f"consume {size_name}", rate, "MB/s", "more")
        yield OnGenerated(f"consume {size_name}: CPU time", cpu, "s/GB", "less")


def _measured(broker: PeerBroker, run: Callable[[], None]) -> tuple[float, float]:
    """Return MB/s, and the broker's CPU seconds per gigabyte, of a load of `LOAD_BYTES`."""
    cpu_before, began = broker.cpu_seconds, time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    return LOAD_BYTES / 1e6 / seconds, (broker.cpu_seconds - cpu_before) / LOAD_BYTES * 1e9


def _followed(broker: PeerBroker) -> Iterator[OnGenerated]:
    create_topic(broker, "tail")
    with Tail(broker.port, "tail") as tail:
        tail.run(TAIL_WARM_UP_SECONDS, per_second=min(TAIL_RATES))
        for rate, seconds in TAIL_RATES.items():
            cpu_before = broker.cpu_seconds
            found = percentiles_us(tail.run(seconds, per_second=rate))
            cpu = (broker.cpu_seconds - cpu_before) / seconds
            for label, value in zip(("p50", "p99", "p99.9"), found, strict=True):
                yield OnGenerated(f"end to end at {rate:,}/s, {label}", value / 1e3, "ms", "less")
            yield OnGenerated(
                f"end to end at {rate:,}/s: CPU time", cpu * 100, "% of a core", "less"
            )


def _by_many(broker: PeerBroker) -> Iterator[OnGenerated]:
    """Many producers with one small request in flight each."""
    create_topic(broker, "many")
    frame = produce_frame(1, 9, topic="many")
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        sockets: dict[int, socket.socket] = {}
        for _ in range(CONNECTIONS):
            each = stack.enter_context(connect(broker.port))
            sockets[each.fileno()] = each
            selector.register(each, selectors.EVENT_READ)
            each.sendall(frame)
        cpu_before, began = broker.cpu_seconds, time.perf_counter()
        answered = 0
        while answered < SMALL_REQUESTS:
            for key, _ in selector.select():
                # Small responses arrive in one piece.
                assert sockets[key.fd].recv(4_096), "the broker closed a connection"
                sockets[key.fd].sendall(frame)
                answered += 1
        seconds = time.perf_counter() - began
        cpu = (broker.cpu_seconds - cpu_before) / answered
    yield OnGenerated("100 producers, one record each", answered / seconds, "/s", "more")
    yield OnGenerated("100 producers, one record each: CPU time", cpu * 1e6, "us each", "less")


def _by_tools(broker: PeerBroker) -> Iterator[OnGenerated]:
    """Kafka's own load generators, with Kafka's Java client."""
    create_topic(broker, "tools")
    count = LOAD_BYTES // 1_024
    printed = run_class(
        KAFKA_4_1,
        f"{_TOOLS}.ProducerPerformance",
        *("--topic", "tools", "--num-records", str(count), "--record-size", "1024"),
        *("--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.address}", "acks=1"),
        jvm_options=_TOOL_JVM,
    )
    found = re.findall(r"\(([\d.]+) MB/sec\)", printed)
    yield OnGenerated(
        "kafka-producer-perf-test 1 KiB", float(found[-1]) * 2**20 / 1e6, "MB/s", "more"
    )
    printed = run_class(
        KAFKA_4_1,
        f"{_TOOLS}.ConsumerPerformance",
        *("--topic", "tools", "--messages", str(count), "--bootstrap-server", broker.address),
        jvm_options=_TOOL_JVM,
    )
    columns = [each.strip() for each in printed.strip().splitlines()[-1].split(",")]
    # The eighth of the nine columns is the rate without the time to join the group.
    yield OnGenerated(
        "kafka-consumer-perf-test 1 KiB", float(columns[8]) * 2**20 / 1e6, "MB/s", "more"
    )
