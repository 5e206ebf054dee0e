"""Cost of replication: acks=all on three replicas compared with acks=1 on one.

The CPU time per replicated gigabyte is what all brokers spent in addition to a run without
replication, divided by the bytes of both copies.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.broker_requests import percentiles_us
from bench.clusters import BenchCluster, headwater_cluster
from bench.harness import Bench, in_turn
from bench.librdkafka import BulkProducer
from bench.raw_requests import VALUE_BYTES, produce_frame, produce_one_at_a_time

ROUNDS: Final = 3
RECORDS: Final = 1_000_000
ALONE: Final = 1_500
COPIES: Final = 2

REPLICATED: Final = "replicated"
SINGLE: Final = "single"

_PRODUCER: Final = {
    "linger.ms": "5",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "262144",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Time and CPU time of one round."""

    seconds: float
    cpu_seconds: float
    p99_us: float


def measure(bench: Bench) -> None:
    with BenchCluster(headwater_cluster({"min.insync.replicas": 2})) as cluster:
        cluster.new_topics(REPLICATED)
        cluster.new_topics(SINGLE, replicas=1)
        contenders: dict[str, Callable[[], Load]] = {
            REPLICATED: lambda: _load(cluster, REPLICATED, acks=-1),
            SINGLE: lambda: _load(cluster, SINGLE, acks=1),
        }
        # The first round also loads modules.
        in_turn(contenders, 1)
        rounds = in_turn(contenders, ROUNDS)
    size_mb = RECORDS * VALUE_BYTES / 1e6
    rate = {name: size_mb / _median(loads, _seconds) for name, loads in rounds.items()}
    cpu_s = {name: _median(loads, _cpu_seconds) for name, loads in rounds.items()}
    p99_us = {name: _median(loads, _p99_us) for name, loads in rounds.items()}
    bench.record(
        "acks=all on three replicas",
        rate[REPLICATED],
        "MB/s",
        compared_with=f"{rate[SINGLE]:.0f} MB/s with acks=1 on one",
    )
    bench.record(
        "one record, acks=all on three replicas, p99",
        p99_us[REPLICATED],
        "us",
        compared_with=f"{p99_us[SINGLE]:,.0f} us with acks=1 on one",
    )
    bench.record(
        "CPU time of all brokers for a replicated gigabyte",
        (cpu_s[REPLICATED] - cpu_s[SINGLE]) / (COPIES * size_mb / 1e3),
        "s/GB",
        compared_with=f"{cpu_s[SINGLE] / size_mb * 1e3:.2f} s/GB to take it from a client",
    )


def _load(cluster: BenchCluster, topic: str, *, acks: int) -> Load:
    leader = cluster.brokers[cluster.leader_of(topic)]
    cpu_before, began = sum(cluster.cpu_seconds), time.perf_counter()
    with BulkProducer(leader.port, topic, {**_PRODUCER, "acks": str(acks)}) as producer:
        producer.produce(bytes(VALUE_BYTES), RECORDS)
    seconds = time.perf_counter() - began
    # With acks=1, followers would lag behind; there are none.
    cpu_seconds = sum(cluster.cpu_seconds) - cpu_before
    frame = produce_frame(1, topic=topic, acks=acks)
    _, p99_us, _ = percentiles_us(produce_one_at_a_time(leader.port, frame, ALONE))
    return Load(seconds=seconds, cpu_seconds=cpu_seconds, p99_us=p99_us)


def _median(loads: list[Load], of: Callable[[Load], float]) -> float:
    return statistics.median(map(of, loads))


def _seconds(load: Load) -> float:
    return load.seconds


def _cpu_seconds(load: Load) -> float:
    return load.cpu_seconds


def _p99_us(load: Load) -> float:
    return load.p99_us
