"""A whole cluster of the shipped code, its clients, and all kinds of faults.

Three to five brokers with their controller, replicas and coordinators, on disks that lose data,
over a network that breaks, with a store whose sessions expire, while operators reassign partitions
and create and delete topics. One seed is one run, and a failing one is a bug report.

Note: the guarantee is not that nothing is ever lost. Records that all ISR members acknowledged
survive while one of them neither loses power nor is considered dead while another one that did is
still in the ISR. So the script spares the last of them.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.simulation.fakes.timed_zookeeper import TimedZooKeeper
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, check
from tests.simulation.worlds.cluster_checks import ClusterChecks, partitions_of
from tests.simulation.worlds.cluster_classic_members import ClassicMember
from tests.simulation.worlds.cluster_clients import (
    TOPIC,
    Client,
    Committer,
    Consumer,
    LooseProducer,
    Producer,
)
from tests.simulation.worlds.cluster_fault_limits import SESSION_MS, FaultLimits
from tests.simulation.worlds.cluster_faults import StoreFaults
from tests.simulation.worlds.cluster_final_checks import commits_are_kept, transactions_are_whole
from tests.simulation.worlds.cluster_members import GroupMember
from tests.simulation.worlds.cluster_operators import Founder, Mover, TopicChurner
from tests.simulation.worlds.cluster_transactions import TransactionalProducer

STORM: Final = Weather(loss=0.005, delay=0.03)
DEFAULT_STEPS: Final = 150
SETTINGS: Final = {
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "1000",
    "controller.socket.timeout.ms": "1000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.session.timeout.ms": "4000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "3",
}
_STEP_MS: Final = 120
_COMPARE_EVERY: Final = 10
_REST_MS: Final = 3_000
_REST_TRIES: Final = 20
_CHURNERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    acknowledged: int
    failure: str | None


class ClusterLife:
    """The run of one seed."""

    def __init__(self, seed: int, *, is_changed: bool = True, has_zookeeper: bool = False) -> None:
        """Unless `is_changed`, there are no reassignments, and no topics are created or deleted.

        `has_zookeeper`: brokers use the shipped store (see `timed_zookeeper`), and more clients
        create and delete topics.
        """
        self.lab = ClusterNodeLab(
            3 + seed % 3,
            seed=seed,
            texts=SETTINGS,
            session_timeout_ms=SESSION_MS,
            most_skew_ms=5_000,
            has_zookeeper=has_zookeeper,
        )
        self.rng = self.lab.time.rand
        self.trace: list[str] = []
        self.told = ClientGuarantees()
        self.checks = ClusterChecks(self.told)
        self.mercy = FaultLimits(self.lab)
        self.faults = StoreFaults(self.lab, self.mercy, self.say)
        self._create()
        self.clients = self._clients(partitions=1 + seed % 3)
        if is_changed:
            self.clients.append(Mover(self.lab, self.told, len(self.clients)))
            self.clients.append(Founder(self.lab, self.told, len(self.clients)))
        if is_changed and has_zookeeper:
            for _ in range(_CHURNERS):
                self.clients.append(TopicChurner(self.lab, self.told, len(self.clients)))
        self.lab.time.weather = STORM

    def _create(self) -> None:
        response = self.lab.nodes[0].ask(
            CreateTopicsRequest(topics=(topic(TOPIC, 3, 3),), timeout_ms=10_000),
            CreateTopicsResponse,
        )
        assert response.topics[0].error_code is ErrorCode.NONE, response

    def _clients(self, partitions: int) -> list[Client]:
        clients: list[Client] = [LooseProducer(self.lab, self.told, 0)]
        for index in range(partitions):
            place = TopicPartition(TOPIC, index)
            clients.append(Producer(self.lab, self.told, len(clients), place))
            clients.append(
                Consumer(
                    self.lab, self.told, len(clients), place, is_committed_only=bool(index % 2)
                )
            )
        clients.append(Committer(self.lab, self.told, len(clients)))
        for _ in range(2):
            clients.append(TransactionalProducer(self.lab, self.told, len(clients)))
            clients.append(GroupMember(self.lab, self.told, len(clients)))
            clients.append(ClassicMember(self.lab, self.told, len(clients)))
        return clients

    def step(self) -> None:
        self.faults.strike()
        self.pass_time(self.rng.randint(1, _STEP_MS))

    def pass_time(self, span_ms: int) -> None:
        """In small steps, so that no state of the store is missed."""
        end_ms = self.lab.time.now_ms + span_ms
        while self.lab.time.now_ms < end_ms:
            self.lab.run(1)
            self.mercy.note_in_sync()
        self.checks.look(self.lab)
        if isinstance(self.lab.store, TimedZooKeeper):
            check(not self.lab.store.contradictions, str(self.lab.store.contradictions))

    def finish(self) -> None:
        """No more faults: everything must recover by itself."""
        self.lab.time.weather = CALM
        self.faults.end()
        for client in self.clients:
            client.is_leaving = True
        is_at_rest = False
        for _ in range(_REST_TRIES):
            self.faults.mend()
            was_at_rest = is_at_rest
            self.pass_time(_REST_MS)
            is_at_rest = self._is_at_rest()
            if was_at_rest and is_at_rest:
                break
        for client in self.clients:
            check(client.is_done, f"client {client.number} is not served: {client.trouble}")
        self.checks.finish(self.lab)
        commits_are_kept(self.lab, self.told)
        transactions_are_whole(self.lab, self.told)

    def _is_at_rest(self) -> bool:
        if not self.faults.are_mended:
            return False
        if any(each.is_deleting for each in self.lab.store.image.topics.values()):
            return False
        return all(client.is_done for client in self.clients) and all(
            len(state.isr) == len(state.replicas) and not state.adding
            for _, state in partitions_of(self.lab)
        )

    def say(self, text: str) -> None:
        states = (
            f"{place.topic[:4]}{place.partition} {state.leader}/{state.leader_epoch} of {state.isr}"
            for place, state in partitions_of(self.lab)
            if place.topic == TOPIC
        )
        controller = self.lab.store.image.controller_id
        now_ms = self.lab.time.now_ms - 1_000_000
        self.trace.append(f"{now_ms:7} {text}; by {controller}; {', '.join(states)}")


def run_on_zookeeper(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """The same with the shipped store on a ZooKeeper in memory."""
    return run(seed, steps=steps, has_zookeeper=True)


def run(seed: int, *, steps: int = DEFAULT_STEPS, has_zookeeper: bool = False) -> Outcome:
    """Run one seed."""
    life = ClusterLife(seed, has_zookeeper=has_zookeeper)
    failure: str | None = None
    try:
        for number in range(steps):
            life.step()
            if number % _COMPARE_EVERY == 0:
                life.checks.compare(life.lab, life.mercy.wiped)
        life.finish()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=life.trace, acknowledged=len(life.told.places), failure=failure)
