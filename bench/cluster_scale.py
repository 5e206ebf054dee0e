"""Three brokers with thousands of partitions: cost when idle, and when a broker fails."""

import statistics
import time
from functools import partial
from typing import Final

from bench.clusters import BROKERS, BenchCluster, await_true, headwater_cluster
from bench.harness import Bench

TOPIC_NAMES: Final = [f"topic-{number}" for number in range(30)]
PARTITIONS_OF_A_TOPIC: Final = 100
SESSION_MS: Final = 6_000
IDLE_SECONDS: Final = 20.0
# Logs are created and fetch sessions started, which is not the cost of idling.
SETTLING_SECONDS: Final = 10.0


def measure(bench: Bench) -> None:
    settings = {"zookeeper.session.timeout.ms": SESSION_MS, "auto.leader.rebalance.enable": False}
    with BenchCluster(headwater_cluster(settings)) as cluster:
        began = time.perf_counter()
        cluster.new_topics(*TOPIC_NAMES, partitions=PARTITIONS_OF_A_TOPIC)
        bench.record("3,000 partitions are made, led and in sync", time.perf_counter() - began, "s")
        time.sleep(SETTLING_SECONDS)
        _measure_idling(bench, cluster)
        _measure_death(bench, cluster)


def _measure_idling(bench: Bench, cluster: BenchCluster) -> None:
    before, began = cluster.cpu_seconds, time.perf_counter()
    time.sleep(IDLE_SECONDS)
    seconds = time.perf_counter() - began
    shares = [
        100 * (after - earlier) / seconds
        for earlier, after in zip(before, cluster.cpu_seconds, strict=True)
    ]
    bench.record(
        "3,000 partitions idle: CPU time of a broker",
        statistics.mean(shares),
        "% of a core",
        compared_with=f"{max(shares):.1f} of the busiest",
        at_most=15,
    )


def _measure_death(bench: Bench, cluster: BenchCluster) -> None:
    victim = BROKERS - 1
    led = sum(each.leader_id == victim for each in cluster.partitions(via=0))
    cluster.brokers[victim].kill()
    killed_s, cpu_before = time.monotonic(), sum(cluster.cpu_seconds)

    def is_replaced(via: int, *topics: str) -> bool:
        found = cluster.partitions(*topics, via=via)
        return all(each.leader_id not in (victim, -1) for each in found)

    for via in range(victim):
        # Checking all topics is work too, so it waits until the first ones are done.
        await_true(partial(is_replaced, via, TOPIC_NAMES[0]))
    await_true(lambda: all(map(is_replaced, range(victim))))
    seconds = time.monotonic() - killed_s
    bench.record(
        "a broker is killed: all know its partitions' new leaders, beyond the session",
        seconds - SESSION_MS / 1e3,
        "s",
        compared_with=f"{led} leaders, a session of {SESSION_MS / 1e3:g} s",
        at_most=3,
    )
    bench.record(
        "a broker is killed: CPU time of the two others until then",
        sum(cluster.cpu_seconds) - cpu_before,
        "s",
    )
