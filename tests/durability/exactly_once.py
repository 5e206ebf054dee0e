"""Copy records exactly once while worker and broker are killed."""

import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.testing import EmbeddedBroker
from tests.durability import copier
from tests.durability.copier import COPY, SOURCE, changed

PARTITIONS = 4
TIMEOUT_S = 120.0
_STEPS_PER_TRANSACTION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Number of records, and of kills."""

    records: int
    per_transaction: int
    kills: int

    @property
    def steps(self) -> int:
        """Approximate number of steps of a worker between two kills."""
        transactions = self.records // self.per_transaction
        return _STEPS_PER_TRANSACTION * transactions // (self.kills + 2)


class Worker:
    """Process of the copier."""

    def __init__(self, servers: str, per_transaction: int) -> None:
        command = [sys.executable, "-m", "tests.durability.copier", servers, str(per_transaction)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._steps: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_pass_on, args=(self._process.stdout, self._steps), daemon=True
        )
        self._reader.start()

    def await_steps(self, steps: int, wanted: str | None = None) -> bool:
        """Wait until it has printed enough steps; False if it ended before."""
        until_s = time.monotonic() + TIMEOUT_S
        while steps > 0:
            try:
                step = self._steps.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError("the worker is silent") from None
            if not step:
                return False
            steps -= wanted in (None, step)
        return True

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Return the exit code."""
        code = self._process.wait(TIMEOUT_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


def _pass_on(output: IO[str], steps: queue.SimpleQueue[str]) -> None:
    for line in output:
        steps.put(line.strip())
    steps.put("")


@contextmanager
def worker_at(servers: str, plan: Plan) -> Iterator[Worker]:
    worker = Worker(servers, plan.per_transaction)
    try:
        yield worker
    finally:
        worker.kill()


def copy_under_fire(broker: EmbeddedBroker, plan: Plan, rng: random.Random) -> int:
    """Copy everything while worker and broker are killed at random; return the number of kills."""
    servers = broker.bootstrap_servers
    worker, deaths = Worker(servers, plan.per_transaction), 0
    try:
        while deaths < plan.kills:
            if not worker.await_steps(rng.randint(1, max(1, plan.steps))):
                break
            victim = rng.choice(("worker", "broker", "both"))
            if victim in ("worker", "both"):
                worker.kill()
            if victim in ("broker", "both"):
                broker.kill()
                broker.restart()
            if victim in ("worker", "both"):
                worker = Worker(servers, plan.per_transaction)
            deaths += 1
        while worker.await_steps(1_000):
            pass
        assert worker.wait() == copier.DONE
    finally:
        worker.kill()
    return deaths


def fence_a_zombie(broker: EmbeddedBroker, plan: Plan, rng: random.Random) -> None:
    """Pause a worker in the middle of its work, let another take over, and resume the first."""
    servers = broker.bootstrap_servers
    with worker_at(servers, plan) as zombie:
        assert zombie.await_steps(rng.randint(2, 2 * _STEPS_PER_TRANSACTION))
        zombie.signal(signal.SIGSTOP)
        with worker_at(servers, plan) as successor:
            assert successor.await_steps(2, copier.COMMITTED)
            zombie.signal(signal.SIGCONT)
            while zombie.await_steps(1):
                pass
            code = zombie.wait()
            assert code == copier.FENCED, code


def fill(servers: str, plan: Plan) -> None:
    """Produce numbers from 0 on, spread over the partitions in turn."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, COPY)]
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2_000_000,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    for number in range(plan.records):
        producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def check_copy(servers: str, plan: Plan) -> None:
    """Check that each record is there once, in its partition and order."""
    seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(COPY, number, 0) for number in range(PARTITIONS)])
    at_end: dict[int, None] = {}
    until_s = time.monotonic() + TIMEOUT_S
    while len(at_end) < PARTITIONS:
        assert time.monotonic() < until_s, [len(each) for each in seen]
        for message in consumer.consume(10_000, 0.5):
            partition, value = message.partition(), message.value()
            assert partition is not None
            if message.error() is not None:
                at_end[partition] = None
            else:
                assert value is not None
                seen[partition].append(value)
    for partition, values in enumerate(seen):
        expected = [changed(b"%d" % n) for n in range(partition, plan.records, PARTITIONS)]
        assert values == expected, f"partition {partition} has {len(values)} of {len(expected)}"
