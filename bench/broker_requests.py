"""CPU cost of a small request, and end-to-end latency of a record.

Note: for pipelined requests the client has next to nothing to do, because it sends prebuilt frames.
One-at-a-time and end-to-end figures include both sides and two context switches; the bare broker's
figure shows how much of that is Headwater's.
"""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Self

from bench.following import SENT_NS, Follower
from bench.harness import Bench, in_turn
from bench.librdkafka import BulkProducer
from bench.processes import Server, bare_broker, broker
from bench.raw_requests import (
    TOPIC,
    VALUE_BYTES,
    produce_frame,
    produce_one_at_a_time,
    produce_pipelined,
)
from bench.topics import create_topic

ROUNDS: Final = 5
PIPELINED: Final = 50_000
OWED: Final = 1_000
ALONE: Final = 5_000

RECORDS_PER_SECOND: Final = 5_000
TAIL_SECONDS: Final = 3.0

# What Kafka's newest Java client would send, except for the topic ids of later versions.
NEWEST_NAMED_PRODUCE: Final = 12

PRODUCER: Final = {"acks": "1", "linger.ms": "0", "socket.nagle.disable": "true"}


def measure(bench: Bench) -> None:
    with ExitStack() as stack:
        server, _ = stack.enter_context(broker())
        create_topic(server, TOPIC)
        bare = stack.enter_context(bare_broker())
        _measure_rate(bench, server, bare)
        _measure_alone(bench, server, bare)
    with ExitStack() as stack:
        server, _ = stack.enter_context(broker())
        create_topic(server, TOPIC)
        bare = stack.enter_context(bare_broker())
        _measure_tail(bench, server, bare)


def _measure_rate(bench: Bench, server: Server, bare: Server) -> None:
    def run(asked: Server, version: int) -> tuple[float, float]:
        frame = produce_frame(1, version)
        cpu_before, began = asked.cpu_seconds, time.perf_counter()
        produce_pipelined(asked.port, frame, PIPELINED, owed=OWED)
        seconds = time.perf_counter() - began
        return PIPELINED / seconds, (asked.cpu_seconds - cpu_before) / PIPELINED * 1e6

    rounds = in_turn(
        {
            "broker": lambda: run(server, NEWEST_NAMED_PRODUCE),
            "bare": lambda: run(bare, 3),
        },
        ROUNDS,
    )
    rate, cpu_us = (statistics.median(each) for each in zip(*rounds["broker"], strict=True))
    limit, limit_us = (statistics.median(each) for each in zip(*rounds["bare"], strict=True))
    bench.record(
        "produce of one record, pipelined",
        rate,
        "/s",
        compared_with=f"{limit:,.0f}/s of a bare loop",
        at_least=40_000,
    )
    bench.record(
        "CPU time of the broker for one of these",
        cpu_us,
        "us",
        compared_with=f"{limit_us:.1f} us of a bare loop",
        at_most=25,
    )


def _measure_alone(bench: Bench, server: Server, bare: Server) -> None:
    def run(asked: Server, version: int) -> list[float]:
        took_ns = produce_one_at_a_time(asked.port, produce_frame(1, version), ALONE)
        return percentiles_us(took_ns)

    rounds = in_turn(
        {
            "broker": lambda: run(server, NEWEST_NAMED_PRODUCE),
            "bare": lambda: run(bare, 3),
        },
        ROUNDS,
    )
    _record_percentiles(bench, "produce of one record, one at a time", rounds)


def _measure_tail(bench: Bench, server: Server, bare: Server) -> None:
    with Tail(server.port) as ours, Tail(bare.port) as limit:
        contenders: dict[str, Callable[[], list[float]]] = {
            "broker": lambda: percentiles_us(ours.run(TAIL_SECONDS)),
            "bare": lambda: percentiles_us(limit.run(TAIL_SECONDS)),
        }
        # The first run also includes connecting and loading modules.
        in_turn(contenders, 1)
        rounds = in_turn(contenders, ROUNDS)
    _record_percentiles(bench, "from producer to consumer at 5,000 records/s", rounds)


def _record_percentiles(bench: Bench, name: str, rounds: dict[str, list[list[float]]]) -> None:
    medians = {
        label: [statistics.median(each) for each in zip(*percentiles, strict=True)]
        for label, percentiles in rounds.items()
    }
    for label, ours, limit in zip(_LABELS, medians["broker"], medians["bare"], strict=True):
        against = f"{limit:,.0f} us of a bare loop"
        bench.record(f"{name}: {label}", ours, "us", compared_with=against)


_LABELS: Final = ("p50", "p99", "p99.9")


def percentiles_us(took_ns: Sequence[int]) -> list[float]:
    """Return p50, p99 and p99.9."""
    ordered = sorted(took_ns)
    last = len(ordered) - 1
    return [ordered[round(last * share)] / 1e3 for share in (0.5, 0.99, 0.999)]


class Tail:
    """Producer at a constant rate and a consumer at the log end, both librdkafka."""

    def __init__(self, port: int, topic: str = TOPIC) -> None:
        self._held = ExitStack()
        self._producer = self._held.enter_context(BulkProducer(port, topic, PRODUCER))
        self._follower = self._held.enter_context(Follower(port, topic))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def run(
        self,
        seconds: float,
        *,
        per_second: int = RECORDS_PER_SECOND,
        also_until: threading.Event | None = None,
    ) -> list[int]:
        """Send for `seconds`, or until an event; return the latency of each record in ns."""
        padding = bytes(VALUE_BYTES - SENT_NS.size)
        began, count = time.perf_counter(), 0
        interval = 1 / per_second
        while count * interval < seconds or (also_until is not None and not also_until.is_set()):
            early = began + count * interval - time.perf_counter()
            if early > 0:
                time.sleep(early)
            self._producer.send(SENT_NS.pack(time.monotonic_ns()) + padding)
            count += 1
        return self._follower.times_ns(count)
