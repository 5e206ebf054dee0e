"""One run: a cluster, clients, faults for some minutes, and the checks."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.cluster.cluster_clients import Clients
from tests.cluster.faults.bookkeeper import RECORDS_EACH, Bookkeeper, committed_records
from tests.cluster.faults.epochs import sent_again
from tests.cluster.faults.fault_plan import BROKERS, Round, Store, rounds
from tests.cluster.faults.guarantee_checks import (
    Fate,
    Log,
    Observations,
    broken_transactions,
    violations,
)
from tests.cluster.faults.hurt_cluster import TIMEOUT_S, HurtCluster, replica_bytes
from tests.cluster.faults.witnesses import Member, Tail, Target, Witness, Writer

PARTITIONS: Final = 6
WRITERS: Final = 2
GROUP: Final = "the-group"

_LOOK_S: Final = 0.2


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    seen: int = 0
    commits: int = 0
    transactions: Counter[Fate] = field(default_factory=Counter)
    # Records that librdkafka has sent again with a new epoch.
    sent_again: int = 0
    restarts: int = 0
    # The longest time without a delivery report, by fault.
    stalls_s: list[tuple[float, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Trial:
    """Runs the cluster, the clients and the faults."""

    def __init__(
        self, folder: Path, say: Callable[[str], None], store: Store = Store.KRAFT
    ) -> None:
        self._folder = folder
        self._store = store
        self._say = say
        self._observed = Observations()
        self._outcome = Outcome()

    def run(self, seed: int, seconds: float) -> Outcome:
        with HurtCluster(self._folder, self._store) as cluster:
            clients = Clients(cluster.bootstrap_servers)
            target = Target(
                servers=cluster.bootstrap_servers,
                topic=clients.new_topic(PARTITIONS),
                partitions=PARTITIONS,
            )
            ledger = replace(target, topic=clients.new_topic(PARTITIONS))
            bookkeeper = Bookkeeper(ledger, "bookkeeper")
            with self._witnesses(target, bookkeeper):
                self._suffer(cluster, seed, seconds)
                self._recover(cluster, clients, target.topic)
            self._audit(ledger, bookkeeper)
            log = self._read_all(target)
            committed = self._committed(target)
            cluster.stop()
            self._look_for_copies(cluster, target.topic)
            self._outcome.violations += violations(self._observed, log, committed)
            self._compare_replicas(cluster, target.topic)
            self._look_into_logs(cluster)
            self._outcome.restarts = cluster.restarts
        return self._outcome

    @contextmanager
    def _witnesses(self, target: Target, bookkeeper: Bookkeeper) -> Iterator[None]:
        lock = threading.Lock()
        writers = [Writer(target, number, self._observed) for number in range(WRITERS)]
        tail = Tail(target, self._observed)
        members = [Member(target, GROUP, self._observed, lock) for _ in range(2)]
        all_of_them: list[Witness] = [*writers, tail, *members, bookkeeper]
        self._writers = writers
        self._all_of_them = all_of_them
        for witness in all_of_them:
            witness.start()
        yield
        bookkeeper.finish(TIMEOUT_S)
        for writer in writers:
            writer.finish(TIMEOUT_S)
        ends = self._ends(target)
        tail.finish_at(ends, TIMEOUT_S)
        wanted = len({(partition, value) for partition, _, value in self._observed.seen})
        for member in members:
            member.finish_when(lambda: len(self._observed.handled) >= wanted, TIMEOUT_S)
        self._outcome.acknowledged = sum(writer.acknowledged for writer in writers)
        self._outcome.seen = len(self._observed.seen)
        self._outcome.commits = sum(member.commits for member in members)
        self._outcome.violations += [said for each in all_of_them for said in each.trouble]

    def _suffer(self, cluster: HurtCluster, seed: int, seconds: float) -> None:
        began_s = time.monotonic()
        for number, each in enumerate(rounds(seed, self._store), 1):
            if time.monotonic() > began_s + seconds or any(
                each.trouble for each in self._all_of_them
            ):
                return
            self._one_round(cluster, number, each, time.monotonic() - began_s)

    def _one_round(self, cluster: HurtCluster, number: int, this: Round, at_s: float) -> None:
        described = " + ".join(map(str, this.faults))
        self._say(f"{at_s:6.1f} s  {number:3}  {described}")
        for writer in self._writers:
            writer.longest_stall_s = 0.0
        cluster.hurt(this.faults)
        cluster.rest(this.calm_s)
        self._outcome.faults.update(fault.kind.value for fault in this.faults)
        stall_s = max(writer.longest_stall_s for writer in self._writers)
        self._outcome.stalls_s.append((stall_s, described))

    def _recover(self, cluster: HurtCluster, clients: Clients, topic: str) -> None:
        """All faults are over: all replicas must rejoin the ISR, in reasonable time."""
        until = time.monotonic() + TIMEOUT_S
        wanted = {each: list(BROKERS) for each in range(PARTITIONS)}
        while (found := clients.in_sync(topic)) != wanted:
            if time.monotonic() > until:
                self._outcome.violations.append(f"not in sync again: {found}")
                return
            cluster.rest(_LOOK_S)

    def _audit(self, ledger: Target, bookkeeper: Bookkeeper) -> None:
        found = committed_records(ledger, bookkeeper.committed, TIMEOUT_S)
        self._outcome.violations += broken_transactions(bookkeeper.fates, found, whole=RECORDS_EACH)
        self._outcome.transactions.update(bookkeeper.fates.values())

    def _ends(self, target: Target) -> dict[int, int]:
        consumer = _consumer(target)
        try:
            found = {}
            for each in range(target.partitions):
                partition = TopicPartition(target.topic, each)
                _, found[each] = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
            return found
        finally:
            consumer.close()

    def _read_all(self, target: Target) -> Log:
        ends = self._ends(target)
        consumer = _consumer(target)
        consumer.assign([TopicPartition(target.topic, each, 0) for each in ends])
        log: dict[int, list[tuple[int, bytes]]] = {each: [] for each in ends}
        left = sum(ends.values())
        until = time.monotonic() + TIMEOUT_S
        while left > 0 and time.monotonic() < until:
            for message in consumer.consume(1_000, timeout=0.2):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    log[partition].append((offset, bytes(message.value() or b"")))
                    left -= 1
        consumer.close()
        if left > 0:
            self._outcome.violations.append(f"{left} records cannot be read back")
        return log

    def _committed(self, target: Target) -> dict[int, int]:
        consumer = _consumer(target)
        try:
            asked = [TopicPartition(target.topic, each) for each in range(target.partitions)]
            found = consumer.committed(asked, timeout=TIMEOUT_S)
            return {each.partition: each.offset for each in found}
        finally:
            consumer.close()

    def _look_for_copies(self, cluster: HurtCluster, topic: str) -> None:
        for number in range(PARTITIONS):
            content = replica_bytes(cluster.data_of(BROKERS[0]), f"{topic}-{number}")
            copies = sent_again(content)
            self._observed.sent_again |= {(number, value) for value in copies}
        self._outcome.sent_again = len(self._observed.sent_again)

    def _compare_replicas(self, cluster: HurtCluster, topic: str) -> None:
        for number in range(PARTITIONS):
            partition = f"{topic}-{number}"
            first, *others = (replica_bytes(cluster.data_of(each), partition) for each in BROKERS)
            if any(each != first for each in others):
                sizes = [len(each) for each in (first, *others)]
                self._outcome.violations.append(
                    f"the replicas of partition {number} differ, of {sizes} bytes"
                )

    def _look_into_logs(self, cluster: HurtCluster) -> None:
        for number, broker in enumerate(cluster.brokers):
            if "Traceback" in broker.log_text:
                self._outcome.violations.append(f"broker {number} has logged a traceback")


def _consumer(target: Target) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": target.servers,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
