"""Run back-to-back transactions of Kafka's Java producer and count the failures.

`python -m tests.peers.back_to_back_transactions` compares three Headwater brokers with three nodes
of Apache Kafka: the same loads on one cluster after the other, by the Java producer and, with
`--python`, by confluent-kafka and our own client too.
"""

import argparse
import re
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.peer_brokers import DEFAULT_JVM
from headwater.testing import EmbeddedCluster
from tests.cluster.back_to_back import PRODUCERS, run_transactions
from tests.cluster.cluster_clients import Clients
from tests.peers.apache_cluster import ApacheCluster
from tests.peers.apache_kafka import java
from tests.peers.jars import KAFKA_4_1

PARTITIONS: Final = 12
CLUSTER: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}
_PROGRAM: Final = Path(__file__).parent / "java" / "BackToBackTransactions.java"
_SUMMARY: Final = re.compile(r"^transactions=(\d+) failures=(\d+) millis=(\d+)$", re.MULTILINE)
_TIMEOUT_S: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What each transaction writes, and the producer settings that matter for it."""

    name: str
    transactions: int
    records: int
    settings: tuple[str, ...] = ()


WIDE: Final = Load(name="wide", transactions=500, records=PARTITIONS, settings=("linger.ms=0",))
PIPELINED: Final = Load(
    name="pipelined", transactions=200, records=60, settings=("linger.ms=0", "batch.size=64")
)
LOADS: Final = (WIDE, PIPELINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    failures: int
    millis_per_transaction: float
    printed: str


def run_java(servers: str, topic: str, load: Load) -> Result:
    """Run the load with its own transactional id and consumer group."""
    name = f"{load.name}-{uuid.uuid4().hex[:8]}"
    settings = (f"bootstrap.servers={servers}", f"transactional.id={name}", *load.settings)
    counts = (str(PARTITIONS), name, str(load.transactions), str(load.records))
    done = subprocess.run(
        [*java(KAFKA_4_1, level="error"), str(_PROGRAM), topic, *counts, *settings],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    summary = _SUMMARY.search(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary is not None, done.stdout
    _, failures, millis = map(int, summary.groups())
    return Result(
        failures=failures,
        millis_per_transaction=millis / load.transactions,
        printed=done.stdout,
    )


def measure(cluster: str, servers: str, *, runs: int, with_python: bool) -> None:
    """Print a line for each run of each load by each client."""
    topic = Clients(servers).new_topic(PARTITIONS, 3)
    for number in range(runs):
        for load in LOADS:
            result = run_java(servers, topic, load)
            _report(f"{cluster} java run={number}", load, result)
            if with_python:
                for client in PRODUCERS:
                    result = run_python(client, servers, topic, load)
                    _report(f"{cluster} {client} run={number}", load, result)


def run_python(client: str, servers: str, topic: str, load: Load) -> Result:
    begin_s = time.monotonic()
    failures = run_transactions(
        client,
        servers,
        topic,
        partitions=PARTITIONS,
        transactions=load.transactions,
        records=load.records,
    )
    millis = (time.monotonic() - begin_s) * 1_000
    return Result(
        failures=len(failures),
        millis_per_transaction=millis / load.transactions,
        printed="\n".join(failures),
    )


def _report(what: str, load: Load, result: Result) -> None:
    print(
        f"{what} load={load.name} transactions={load.transactions} failures={result.failures}"
        f" ms_per_transaction={result.millis_per_transaction:.1f}",
        flush=True,
    )
    if result.failures:
        print(result.printed, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="Runs per cluster. Default: 1.")
    parser.add_argument(
        "--only", choices=("headwater", "kafka"), help="Run on one of the clusters only."
    )
    parser.add_argument(
        "--python", action="store_true", help="Run confluent-kafka and our client as well."
    )
    chosen = parser.parse_args()
    measured = partial(measure, runs=chosen.runs, with_python=chosen.python)
    if chosen.only != "kafka":
        with EmbeddedCluster(3, CLUSTER, timeout_s=180) as cluster:
            measured("headwater", cluster.bootstrap_servers)
    if chosen.only != "headwater":
        with tempfile.TemporaryDirectory() as folder:
            apache = ApacheCluster(Path(folder), 3, DEFAULT_JVM, CLUSTER)
            try:
                apache.start()
                measured("kafka", apache.bootstrap_servers)
            finally:
                apache.close()


if __name__ == "__main__":
    main()
