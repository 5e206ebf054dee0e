"""Start time of a cluster, and the stall of a producer when a broker fails or stops.

Note: a killed broker is detected by its refused connections, long before its session has expired.
Two session timeouts are measured to show that they do not matter.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.clusters import BROKERS, BenchCluster, SteadyWriter, await_true, headwater_cluster
from bench.harness import Bench
from headwater.network.free_ports import free_ports

ROUNDS: Final = 3
SESSIONS_MS: Final = (6_000, 1_500)
# By whether the cluster is on ZooKeeper.
_SESSION_SETTING: Final = {
    False: "broker.session.timeout.ms",
    True: "zookeeper.session.timeout.ms",
}
TOPIC: Final = "steady"

_AFTERWARDS_S: Final = 1.0
_TRIES: Final = 5


def measure(bench: Bench) -> None:
    ready_s = statistics.median(_ready_seconds() for _ in range(ROUNDS))
    bench.record("three brokers that are also controllers are ready", ready_s, "s", at_most=3)
    for is_zookeeper, setting in _SESSION_SETTING.items():
        store = "ZooKeeper" if is_zookeeper else "KRaft"
        for session_ms in SESSIONS_MS:
            settings = {setting: session_ms, "min.insync.replicas": 2}
            with BenchCluster(headwater_cluster(settings, zookeeper=is_zookeeper)) as cluster:
                cluster.new_topics(TOPIC)
                _measure_kills(bench, cluster, f"{store}, session of {session_ms / 1e3:g} s")
                if session_ms == SESSIONS_MS[0]:
                    _measure_stops(bench, cluster, store)


def _measure_kills(bench: Bench, cluster: BenchCluster, label: str) -> None:
    stalls_s = [_stall_after_kill(cluster) for _ in range(ROUNDS)]
    bench.record(
        f"leader killed: stall of a producer on {label}",
        statistics.median(stalls_s),
        "s",
        compared_with=f"{max(stalls_s):.2f} s at worst",
        at_most=3,
    )


def _stall_after_kill(cluster: BenchCluster) -> float:
    leader = cluster.leader_of(TOPIC)
    with SteadyWriter(cluster.servers, TOPIC) as writer:
        killed_s = time.monotonic()
        cluster.brokers[leader].kill()
        await_true(lambda: writer.has_recovered(killed_s))
        stall_s, _ = writer.longest_pause(killed_s)
    _bring_back(cluster, leader)
    return stall_s


def _measure_stops(bench: Bench, cluster: BenchCluster, store: str) -> None:
    stalls_s, refused = [], 0
    for _ in range(ROUNDS):
        leader = cluster.leader_of(TOPIC)
        with SteadyWriter(cluster.servers, TOPIC) as writer:
            stopped_s = time.monotonic()
            cluster.brokers[leader].stop()
            time.sleep(_AFTERWARDS_S)
        stalls_s.append(writer.longest_pause(stopped_s)[0])
        refused += len(writer.refused)
        _bring_back(cluster, leader)
    bench.record(
        f"controlled shutdown of a leader on {store}: longest stall of a producer",
        statistics.median(stalls_s) * 1e3,
        "ms",
        compared_with=f"{max(stalls_s) * 1e3:.0f} ms at worst",
        at_most=500,
    )
    bench.record(
        f"controlled shutdown of a leader on {store}: refused records", refused, "", at_most=0
    )


def _bring_back(cluster: BenchCluster, broker: int) -> None:
    cluster.brokers[broker].start()
    for each in range(BROKERS):
        cluster.await_in_sync(TOPIC, via=each, count=BROKERS)


def _ready_seconds() -> float:
    """Start a cluster with the command line, as a user does."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        # Free ports are not reserved, so another process may take one.
        for _ in range(_TRIES):
            found_s = _try_to_start(Path(folder))
            if found_s is not None:
                return found_s
    raise RuntimeError("the cluster does not start")


def _try_to_start(folder: Path) -> float | None:
    port = max(free_ports("127.0.0.1", 1)) - BROKERS
    command = [sys.executable, "-P", "-m", "headwater", "cluster", "start"]
    command += ["--dir", str(folder), "--brokers", str(BROKERS), "--base-port", str(port)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
        if not line.startswith("headwater ready"):
            return None
        os.kill(process.pid, signal.SIGINT)
    return seconds
