"""Members join, leave, are killed and pause while records are written: none is missed.

Invariants: a member gets a partition only if no other member has it, unless that one was told that
it lost it; and committed offsets only grow. At the end every record was seen by some member.
"""

import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from headwater.client import Admin, Consumer, Producer, RebalanceListener, TopicPartition
from headwater.client.errors import CommitFailed, KafkaError, RebalanceInProgress
from headwater.testing import EmbeddedBroker

PARTITIONS = 6
MEMBERS = 4
LIVES = 5
RECORDS = 3_000
TIMEOUT_S = 120
STRATEGIES = ["range", "cooperative-sticky"]


@dataclass(slots=True)
class World:
    """What all members have seen together."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    owner: dict[TopicPartition, int] = field(default_factory=dict)
    clashes: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    lives: int = 0


class Watch(RebalanceListener):
    """Records assignments. A partition is revoked before another member gets it, or was lost."""

    def __init__(self, world: World, life: int) -> None:
        self._world = world
        self._life = life

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        with self._world.lock:
            for each in partitions:
                other = self._world.owner.get(each)
                if other is not None and other != self._life:
                    self._world.clashes.append(f"{each} of {other} was given to {self._life}")
                self._world.owner[each] = self._life

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        with self._world.lock:
            for each in partitions:
                if self._world.owner.get(each) == self._life:
                    del self._world.owner[each]

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)


def live(world: World, settings: dict[str, object], topic: str, rng: random.Random) -> None:
    """One member's life: it reads and commits for a while, and leaves."""
    with world.lock:
        world.lives += 1
        life = world.lives
    polls = rng.randrange(3, 40)
    with Consumer(settings) as consumer:
        consumer.subscribe([topic], listener=Watch(world, life))
        for _ in range(polls):
            records = consumer.poll(0.05)
            with world.lock:
                world.seen.update((record.partition, record.offset) for record in records)
            if records and rng.random() < 0.5:
                try:
                    consumer.commit()
                except (CommitFailed, RebalanceInProgress):
                    continue


def member(world: World, settings: dict[str, object], topic: str, seed: int) -> None:
    rng = random.Random(seed)
    try:
        for _ in range(LIVES):
            live(world, settings, topic, rng)
    except KafkaError as error:
        with world.lock:
            world.failures.append(repr(error))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", [*STRATEGIES, "consumer"])
def test_group_in_a_storm_misses_nothing(topic: str, kind: str, seed: int) -> None:
    with EmbeddedBroker({"group.min.session.timeout.ms": 1_000}) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
        settings: dict[str, object] = {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 6_000,
            "max.poll.records": 20,
            "group.protocol": "consumer" if kind == "consumer" else "classic",
        }
        if kind != "consumer":
            settings["partition.assignment.strategy"] = kind
        world = World()
        threads = [
            threading.Thread(
                target=member, args=(world, settings, topic, 100 * seed + number), daemon=True
            )
            for number in range(MEMBERS)
        ]
        with Producer(bootstrap_servers=servers) as producer:
            for thread in threads:
                thread.start()
            for number in range(RECORDS):
                producer.send(topic, b"x", partition=number % PARTITIONS)
        limit_s = time.monotonic() + TIMEOUT_S
        for thread in threads:
            thread.join(max(limit_s - time.monotonic(), 0))
            assert not thread.is_alive(), "a member hangs"
        assert world.failures == []
        assert world.clashes == []
        # The last member finds what was not committed.
        with Consumer(settings) as last:
            last.subscribe([topic])
            while len(world.seen) < RECORDS:
                assert time.monotonic() < limit_s, f"{len(world.seen)} of {RECORDS} were seen"
                world.seen.update((each.partition, each.offset) for each in last.poll(0.2))
        assert len(world.seen) == RECORDS
