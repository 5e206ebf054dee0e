"""Compare Headwater with Apache Kafka: the same loads, one broker at a time, interleaved.

Writes `docs/reference/benchmarks.md`. A goal of 1 means parity; every ratio is computed so that
more than 1 is better for Headwater, whatever the unit.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench import peer_cluster_loads, peer_clusters
from bench.conditions import present_conditions
from bench.harness import Bench, in_short, in_turn
from bench.peer_brokers import CONTENDERS, Start
from bench.peer_clusters import CONTENDERS as CLUSTERS
from bench.peer_loads import OnGenerated, run_all
from tests.peers.jars import KAFKA_4_1

ROUNDS: Final = 3
PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "benchmarks.md"
OURS: Final = "Headwater"

_HEAD: Final = """\
# Benchmarks

Headwater and Apache Kafka 4.1, measured by `make bench-peers` with the same load generators and
the same settings, on the same disk. Only one of the contenders runs at a time, in turn, {rounds}
times each; the table has the medians. Load generators and brokers share the machine: {cpu},
{cores} cores, {memory} MiB, {kernel}, Python {python}, {date}.

*Kafka* has its default settings and the JVM options of its own start script. *Tuned* is Kafka
with a heap of 4 GB (2 GB per broker in clusters), the parallel garbage collector, two network
and two I/O threads, and socket buffers sized by Linux. Clusters have three brokers that are also
KRaft controllers, and a session timeout of 6 s. *Ahead* says how many times better Headwater is
than the better of the two, whether a higher or a lower value is better: above 1 Headwater is
better, below 1 it is worse.

- *ready after*: time from the start of the process until it accepts requests. *resident*: memory
  of the broker, or of all brokers.
- *produce 100 B, none, acks=1*: a librdkafka producer writes records with values of 100 bytes,
  without compression. The values are log lines. *on three*: to a topic with three replicas.
- *consume 100 B*: a librdkafka consumer reads these records from the beginning.
- MB/s are millions of bytes of uncompressed values per second. *CPU time* is that of the broker,
  or of all brokers.
- *end to end at 1,000/s*: time from sending a record until a consumer that waits at the end of
  the log has received it, while 1,000 records are sent per second. p50, p99 and p99.9 are
  percentiles.
- *100 producers, one record each*: 100 connections, each of which sends the next request when it
  has the response to the previous one. *us each* are microseconds per request.
- *one record, acks=all on three*: time from sending a record until it is acknowledged.
- *leader leaves*: longest time without an acknowledgement for a producer while the leader is
  shut down with SIGTERM. *leader killed*: the same with SIGKILL.

| | Headwater | Kafka | tuned | unit | ahead |
|---|---:|---:|---:|---|---:|
"""


def measure(bench: Bench) -> None:
    absence = KAFKA_4_1.absence()
    if absence is not None:
        raise SystemExit(f"cannot compare with Apache Kafka: {absence}")
    brokers = {name: partial(_run, start) for name, start in CONTENDERS.items()}
    clusters = {name: partial(_run_cluster, start) for name, start in CLUSTERS.items()}
    one = recorded(bench, in_turn(brokers, ROUNDS))
    three = recorded(bench, in_turn(clusters, ROUNDS))
    PAGE.write_text(_head() + "\n".join([*one, *three]) + "\n", encoding="utf-8")


def _run(start: Start) -> list[OnGenerated]:
    """Run all loads on a new broker."""
    with start() as broker:
        return list(run_all(broker))


def _run_cluster(start: peer_clusters.Start) -> list[OnGenerated]:
    with start() as cluster:
        return list(peer_cluster_loads.run_all(cluster))


def recorded(bench: Bench, runs: Mapping[str, Sequence[Sequence[OnGenerated]]]) -> list[str]:
    """Record the figures; return the lines of the page."""
    lines = []
    for index, first in enumerate(runs[OURS][0]):
        values = {
            name: statistics.median(each[index].value for each in rounds)
            for name, rounds in runs.items()
        }
        ahead = _ahead(first, values)
        rivals = ", ".join(
            f"{name} {in_short(value)}" for name, value in values.items() if name != OURS
        )
        bench.record(first.name, values[OURS], first.unit, compared_with=rivals)
        bench.record(f"{first.name}: ahead", ahead, "times", at_least=1)
        figures = " | ".join(in_short(value) for value in values.values())
        lines.append(f"| {first.name} | {figures} | {first.unit} | {ahead:.2f} |")
    return lines


def _ahead(taken: OnGenerated, values: dict[str, float]) -> float:
    rivals = [value for name, value in values.items() if OURS not in name]
    if taken.better == "more":
        return values[OURS] / max(rivals)
    return min(rivals) / values[OURS]


def _head() -> str:
    now = present_conditions()
    return _HEAD.format(
        rounds=ROUNDS,
        cpu=now["cpu"],
        cores=now["cores"],
        memory=now["memory_mib"],
        kernel=now["kernel"],
        python=now["python"],
        date=str(now["date"])[:10],
    )
