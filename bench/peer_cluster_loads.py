"""Loads on a cluster: records on three replicas, a broker that stops or is killed.

Note: three brokers and the load generator share two cores, so a rate is that of all together.
"""

import time
from collections.abc import Iterator
from typing import Final

from bench.broker_requests import percentiles_us
from bench.broker_throughput import PRODUCER
from bench.clusters import BROKERS, SteadyWriter, await_true
from bench.librdkafka import BulkProducer
from bench.peer_clusters import PeerCluster
from bench.peer_loads import LOAD_BYTES, SIZES, OnGenerated, line_of
from bench.raw_requests import produce_frame, produce_one_at_a_time

WARM_UP_BYTES: Final = 300_000_000
ALONE: Final = 2_000
CODECS: Final = ("none", "zstd")

_STEADY: Final = "steady"
_AFTERWARDS_S: Final = 2.0


def run_all(cluster: PeerCluster) -> Iterator[OnGenerated]:
    """Run all loads on a cluster that has just started."""
    yield OnGenerated("three brokers: ready after", cluster.ready_seconds, "s", "less")
    yield OnGenerated("three brokers: resident", cluster.resident_bytes / 2**20, "MiB", "less")
    cluster.new_topics("warm", _STEADY)
    _produce(cluster, "warm", bytes(1_024), WARM_UP_BYTES, "none")
    for size_name, size in SIZES.items():
        for codec in CODECS:
            yield from _produced(cluster, size_name, size, codec)
    yield from _one_at_a_time(cluster)
    yield _left(cluster)
    yield _killed(cluster)


def _produced(cluster: PeerCluster, size_name: str, size: int, codec: str) -> Iterator[OnGenerated]:
    topic = f"load-{size}-{codec}"
    cluster.new_topics(topic)
    cpu_before, began = cluster.all_cpu_seconds, time.perf_counter()
    _produce(cluster, topic, line_of(size), LOAD_BYTES, codec)
    seconds = time.perf_counter() - began
    cpu = (cluster.all_cpu_seconds - cpu_before) / LOAD_BYTES * 1e9
    name = f"produce {size_name}, {codec}, acks=all on three"
    yield OnGenerated(name, LOAD_BYTES / 1e6 / seconds, "MB/s", "more")
    yield OnGenerated(f"{name}: CPU time", cpu, "s/GB", "less")


def _produce(cluster: PeerCluster, topic: str, value: bytes, size: int, codec: str) -> None:
    settings = {**PRODUCER, "acks": "-1", "compression.type": codec}
    leader = cluster.brokers[cluster.leader_of(topic)]
    with BulkProducer(leader.port, topic, settings) as producer:
        producer.produce(value, size // len(value))


def _one_at_a_time(cluster: PeerCluster) -> Iterator[OnGenerated]:
    leader = cluster.brokers[cluster.leader_of("warm")]
    frame = produce_frame(1, 9, topic="warm", acks=-1)
    produce_one_at_a_time(leader.port, frame, ALONE // 4)
    found = percentiles_us(produce_one_at_a_time(leader.port, frame, ALONE))
    for label, value in zip(("p50", "p99"), found, strict=False):
        yield OnGenerated(f"one record, acks=all on three, {label}", value / 1e3, "ms", "less")


def _left(cluster: PeerCluster) -> OnGenerated:
    leader = cluster.leader_of(_STEADY)
    with SteadyWriter(cluster.servers, _STEADY) as writer:
        stopped_s = time.monotonic()
        cluster.brokers[leader].stop()
        time.sleep(_AFTERWARDS_S)
    stall_s, _ = writer.longest_pause(stopped_s)
    cluster.brokers[leader].start()
    for each in range(BROKERS):
        cluster.await_in_sync(_STEADY, via=each, count=BROKERS)
    return OnGenerated("leader leaves: longest stall of a producer", stall_s * 1e3, "ms", "less")


def _killed(cluster: PeerCluster) -> OnGenerated:
    leader = cluster.leader_of(_STEADY)
    with SteadyWriter(cluster.servers, _STEADY) as writer:
        killed_s = time.monotonic()
        cluster.brokers[leader].kill()
        await_true(lambda: writer.has_recovered(killed_s))
        stall_s, _ = writer.longest_pause(killed_s)
    return OnGenerated("leader killed: stall of a producer, session 6 s", stall_s, "s", "less")
