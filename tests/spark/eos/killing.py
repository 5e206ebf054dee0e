"""Run the job to its end through all kills, and count its rows.

A job that fails does not fail the test: it is started again from its checkpoint, as an operator
would do, and so is a broker that was killed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.spark.eos.faults import VARIABLE, Faults, Victim
from tests.spark.eos.job import Job
from tests.spark.standalone import Standalone

ROWS = 200_000
PARTITIONS = 2
TIMEOUT_S = 3000.0
_RUNS_MAX = 6
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of the rows."""

    once: int
    more_than_once: int
    runs: int
    broker_restarts: int
    # Everything in the log, with what was aborted and the markers.
    log_size: int
    group_offset: int
    seconds: float

    @property
    def missing(self) -> int:
        return ROWS - self.once - self.more_than_once

    def __str__(self) -> str:
        restarts = f"{self.runs - 1} restarts of the job, {self.broker_restarts} of the broker"
        return (
            f"{self.once:,} of {ROWS:,} rows once, {self.more_than_once:,} more often, "
            f"{self.missing:,} not at all; {restarts}; {self.log_size - ROWS:,} offsets of aborted "
            f"rows and markers; the group is at {self.group_offset:,}; {self.seconds:.0f} s"
        )


def run_to_the_end(
    broker: EmbeddedBroker, job: Job, faults: Faults, cluster: Standalone | None = None
) -> Outcome:
    """Run the job as often as necessary; then count."""
    began_s = time.monotonic()
    runs = broker_restarts = 0
    while True:
        assert runs < _RUNS_MAX, f"the job has failed {_RUNS_MAX} times"
        words = ["tests.spark.eos.job", json.dumps(asdict(job))]
        code, restarts = run_module(words, broker, faults, cluster)
        runs += 1
        broker_restarts += restarts
        if code == 0:
            break
    missed = [str(fault) for fault in faults.planned if not faults.has_struck(fault)]
    assert not missed, f"these blows never fell: {missed}"
    seen = Counter(committed_values(broker, job.target))
    return Outcome(
        once=sum(1 for count in seen.values() if count == 1),
        more_than_once=sum(1 for count in seen.values() if count > 1),
        runs=runs,
        broker_restarts=broker_restarts,
        log_size=sum(_ends(broker, job.target).values()),
        group_offset=sum(group_offsets(broker, job).values()),
        seconds=time.monotonic() - began_s,
    )


def run_module(
    words: list[str], broker: EmbeddedBroker, faults: Faults, cluster: Standalone | None = None
) -> tuple[int, int]:
    """Run a Python module to its end; its exit code, and how often the broker was restarted.

    Brokers and workers of the cluster that were killed are started again meanwhile.
    """
    faults.announce(Victim.BROKER, broker.pid)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, VARIABLE: faults.to_text(), "PYTHONPATH": path}
    with (faults.folder / "job.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        faults.announce(Victim.JVM, -process.pid)
        restarts = 0
        until_s = time.monotonic() + TIMEOUT_S
        try:
            while True:
                try:
                    return process.wait(0.2), restarts
                except subprocess.TimeoutExpired:
                    assert time.monotonic() < until_s, f"not done after {TIMEOUT_S} s"
                if not broker.is_running:
                    broker.restart()
                    faults.announce(Victim.BROKER, broker.pid)
                    restarts += 1
                if cluster is not None:
                    cluster.revive()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def prepare(broker: EmbeddedBroker, job: Job) -> None:
    """Create the topics, with numbered rows."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        names = (job.source, job.target)
        admin.create_topics([NewTopic(name=name, partitions=PARTITIONS) for name in names])
    numbers = range(ROWS)
    table = pa.table(
        {
            "key": [b"k%d" % (number % 1000) for number in numbers],
            "value": [b"%d" % number for number in numbers],
            "partition": pa.array([number % PARTITIONS for number in numbers], pa.int32()),
        }
    )
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_table(job.source, table).result(60)


def committed_values(broker: EmbeddedBroker, topic: str) -> list[int]:
    """The numbers that a read_committed consumer sees."""
    ends = _ends(broker, topic)
    found: list[int] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(ends)
        until_s = time.monotonic() + TIMEOUT_S
        while any(consumer.position(each) < end for each, end in ends.items()):
            assert time.monotonic() < until_s, f"a transaction is still open in {topic}"
            found += [int(record.value or b"") for record in consumer.poll(1.0)]
    return found


def group_offsets(broker: EmbeddedBroker, job: Job) -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        listed = admin.list_group_offsets(job.group)
    return {each: position.offset for each, position in listed.items()}


def _ends(broker: EmbeddedBroker, topic: str) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        return consumer.end_offsets(partitions)
