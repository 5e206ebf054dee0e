"""A whole KRaft cluster of the shipped code, its clients, and all kinds of faults.

    python -m tests.simulation kraft-cluster --seed 7

One to three controllers with their quorum and three to five brokers, on disks that lose data, over
a network that breaks, while operators reassign partitions and create and delete topics. Brokers
register, send heartbeats, follow the metadata log, replicate and are fenced; clients use acks=all,
groups and transactions.

Note: the script spares the last replica that has every committed record: see `kraft_faults`. One
seed in four has no eligible leader replicas.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.simulation.fakes.virtual_time import CALM
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.kraft_lab import KRaftLab
from tests.simulation.simulators.cluster import SETTINGS, STORM
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, check
from tests.simulation.worlds.cluster_checks import partitions_of
from tests.simulation.worlds.cluster_classic_members import ClassicMember
from tests.simulation.worlds.cluster_clients import (
    TOPIC,
    Client,
    Committer,
    Consumer,
    LooseProducer,
    Producer,
)
from tests.simulation.worlds.cluster_final_checks import commits_are_kept, transactions_are_whole
from tests.simulation.worlds.cluster_members import GroupMember
from tests.simulation.worlds.cluster_operators import Founder, Mover
from tests.simulation.worlds.cluster_transactions import TransactionalProducer
from tests.simulation.worlds.kraft_checks import KRaftChecks
from tests.simulation.worlds.kraft_faults import KRaftFaultLimits, KRaftFaults

DEFAULT_STEPS: Final = 150
_STEP_MS: Final = 120
_COMPARE_EVERY: Final = 10
_REST_MS: Final = 3_000
_REST_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    events: int
    acknowledged: int
    registrations: int
    failovers: int
    failure: str | None


class KRaftLife:
    """The run of one seed."""

    def __init__(self, seed: int) -> None:
        self.lab = KRaftLab(
            3 + seed % 3,
            (3, 3, 1)[seed % 7 % 3],
            seed=seed,
            texts=SETTINGS,
            most_skew_ms=5_000,
            is_dynamic=seed % 2 == 0,
            snapshot_bytes=(None, 2_000, 500)[seed % 5 % 3],
            has_elr=seed % 4 != 0,
        )
        self.rng = self.lab.time.rand
        self.trace: list[str] = []
        self.told = ClientGuarantees()
        self.checks = KRaftChecks(self.told, lab=self.lab)
        self.lab.store.observers.append(self.checks.committed)
        self.mercy = KRaftFaultLimits(self.lab)
        self.faults = KRaftFaults(self.lab, self.mercy, self.say)
        self.controller_epochs: dict[int, None] = {}
        # The state of the log and of the faults that `mercy` has seen.
        self._seen: tuple[int, int] | None = None
        self._create()
        self.clients = self._clients(partitions=1 + seed % 3)

    def _create(self) -> None:
        response = self.lab.nodes[0].ask(
            CreateTopicsRequest(topics=(topic(TOPIC, 3, 3),), timeout_ms=10_000),
            CreateTopicsResponse,
        )
        assert response.topics[0].error_code is ErrorCode.NONE, response

    def _clients(self, partitions: int) -> list[Client]:
        lab, told = self.lab, self.told
        clients: list[Client] = [LooseProducer(lab, told, 0)]
        for index in range(partitions):
            place = TopicPartition(TOPIC, index)
            clients.append(Producer(lab, told, len(clients), place))
            consumer = Consumer(lab, told, len(clients), place, is_committed_only=bool(index % 2))
            clients.append(consumer)
        clients.append(Committer(lab, told, len(clients)))
        clients.append(TransactionalProducer(lab, told, len(clients)))
        clients.append(GroupMember(lab, told, len(clients)))
        clients.append(ClassicMember(lab, told, len(clients)))
        clients.append(Mover(lab, told, len(clients)))
        clients.append(Founder(lab, told, len(clients)))
        return clients

    def step(self) -> None:
        self.faults.strike()
        self.pass_time(self.rng.randint(1, _STEP_MS))

    def pass_time(self, span_ms: int, *, is_calm: bool = False) -> None:
        """In small steps, so that no state of the log is missed."""
        end_ms = self.lab.time.now_ms + span_ms
        while self.lab.time.now_ms < end_ms:
            seen = self.lab.store.offset, len(self.mercy.wiped)
            if seen != self._seen:
                self._seen = seen
                self.mercy.note_in_sync()
                # A lost heartbeat must not end the session of the last sound member of an ISR.
                spares = is_calm or self.mercy.is_fragile
                self.lab.time.weather = CALM if spares else STORM
            self.lab.run(1)
        active = self.lab.active
        if active is not None:
            self.controller_epochs[active.leader.epoch] = None
        self.checks.look(self.lab)

    def finish(self) -> None:
        """No more faults: everything must recover by itself."""
        self.faults.end()
        self._seen = None
        for client in self.clients:
            client.is_leaving = True
        is_at_rest = False
        for _ in range(_REST_TRIES):
            self.faults.mend()
            was_at_rest = is_at_rest
            self.pass_time(_REST_MS, is_calm=True)
            is_at_rest = self._is_at_rest()
            if was_at_rest and is_at_rest:
                break
        for client in self.clients:
            check(client.is_done, f"client {client.number} is not served: {client.trouble}")
        self.checks.finish(self.lab)
        commits_are_kept(self.lab, self.told)
        transactions_are_whole(self.lab, self.told)

    def _is_at_rest(self) -> bool:
        """Also wait for nodes that take their time to connect to a new leader."""
        lab = self.lab
        if not self.faults.are_mended or not all(each.is_up for each in lab.controllers):
            return False
        ends = dict.fromkeys(each.loader.end.offset for each in lab.controllers)
        if [*ends] != [*dict.fromkeys(each.observer.applied_offset + 1 for each in lab.nodes)]:
            return False
        return all(client.is_done for client in self.clients) and all(
            len(state.isr) == len(state.replicas) and not state.adding
            for _, state in partitions_of(self.lab)
        )

    def say(self, text: str) -> None:
        states = (
            f"{place.topic[:4]}{place.partition} {state.leader}/{state.leader_epoch} of {state.isr}"
            f"{state.elr or ''}"
            for place, state in partitions_of(self.lab)
            if place.topic == TOPIC
        )
        active = self.lab.active
        controller = "none" if active is None else f"{active.node_id}/{active.leader.epoch}"
        now_ms = self.lab.time.now_ms - 1_000_000
        self.trace.append(f"{now_ms:7} {text}; by {controller}; {', '.join(states)}")


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    life = KRaftLife(seed)
    failure: str | None = None
    try:
        for number in range(steps):
            life.step()
            if number % _COMPARE_EVERY == 0:
                life.checks.compare(life.lab, life.mercy.wiped)
        life.finish()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    return Outcome(
        seed=seed,
        trace=life.trace,
        events=life.lab.time.event_count,
        acknowledged=len(life.told.places),
        registrations=len(life.checks.epochs),
        failovers=len(life.controller_epochs),
        failure=failure,
    )
