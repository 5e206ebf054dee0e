"""A whole cluster of the shipped code, its clients, and everything that may befall them.

Three to five brokers with their controller, replicas and coordinators, on disks that forget, over a
network that breaks, with a store whose sessions end. One seed is one story, and a failing one is a
bug report. What a reader would get wrong: the promise is not that nothing is ever lost. What all
in-sync replicas have acknowledged stays while one of them neither loses its power nor is taken for
dead when another one that did is in sync by name. So the script spares the last of them.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from headwater.cluster.image import NO_CONTROLLER
from headwater.model.errors import ErrorCode
from headwater.model.ids import NodeId, TopicPartition
from headwater.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.sim.cluster_checks import ClusterChecks, partitions_of
from tests.sim.cluster_clients import (
    TOPIC,
    Client,
    Committer,
    Consumer,
    LooseProducer,
    Producer,
)
from tests.sim.cluster_lab import topic
from tests.sim.cluster_records import committed_only, records_of
from tests.sim.cluster_told import Told, check
from tests.sim.cluster_transactions import TransactionalProducer
from tests.sim.member_lab import MemberLab, MemberNode
from tests.sim.virtual_time import CALM, Weather

STORM: Final = Weather(loss=0.005, delay=0.03)
DEFAULT_STEPS: Final = 150
SESSION_MS: Final = 1_500
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
    "leader.imbalance.check.interval.seconds": "3",
}
_STEP_MS: Final = 120
_COMPARE_EVERY: Final = 10
_SHAKY_MS: Final = 1_000
_FOR_EVER_MS: Final = 1 << 60
_REST_MS: Final = 3_000
_REST_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None when every check held."""

    seed: int
    trace: list[str]
    acknowledged: int
    failure: str | None


class ClusterLife:
    """One seed's story."""

    def __init__(self, seed: int) -> None:
        self.lab = MemberLab(
            3 + seed % 3,
            seed=seed,
            texts=SETTINGS,
            session_timeout_ms=SESSION_MS,
            most_skew_ms=5_000,
        )
        self.dice = self.lab.time.rng
        self.trace: list[str] = []
        self.told = Told()
        self.checks = ClusterChecks(self.told)
        # Who lost its power and has not been taken among the in-sync replicas since.
        self.wiped: dict[tuple[TopicPartition, NodeId], None] = {}
        # Who may be taken for dead until then, or has been just now.
        self._shaky_until_ms: dict[NodeId, int] = {}
        self._cut_off: dict[NodeId, None] = {}
        self._isr: dict[TopicPartition, tuple[NodeId, ...]] = {}
        self._create()
        self.clients = self._clients(partitions=1 + seed % 3)
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
        return clients

    def step(self) -> None:
        match self.dice.randrange(30):
            case 0 | 1:
                self._crash()
            case 2 | 3 | 4:
                self._restart()
            case 5:
                self._cut()
            case 6 | 7:
                self.lab.network.heal()
            case 8:
                self._expire()
            case 9:
                self._lose_store()
            case 10 | 11:
                self._find_store()
            case 12:
                self._roll()
            case _:
                pass
        self.pass_time(self.dice.randint(1, _STEP_MS))

    def pass_time(self, span_ms: int) -> None:
        """In small pieces: no state of the store shall be missed."""
        end_ms = self.lab.time.now_ms + span_ms
        while self.lab.time.now_ms < end_ms:
            self.lab.run(1)
            self._note_in_sync()
        self.checks.look(self.lab)

    def finish(self) -> None:
        """No more faults: everything must become well by itself."""
        self.lab.time.weather = CALM
        self.lab.network.heal()
        for node in self.lab.nodes:
            node.session.heal()
        for client in self.clients:
            client.is_leaving = True
        is_at_rest = False
        for _ in range(_REST_TRIES):
            for node in self.lab.nodes:
                if not node.is_up:
                    self._start(node)
            was_at_rest = is_at_rest
            self.pass_time(_REST_MS)
            is_at_rest = self._is_at_rest()
            if was_at_rest and is_at_rest:
                break
        for client in self.clients:
            check(client.is_done, f"client {client.number} is not served: {client.trouble}")
        self.checks.finish(self.lab)
        self._commits_are_kept()
        self._transactions_are_whole()

    def _is_at_rest(self) -> bool:
        if not all(node.is_up for node in self.lab.nodes):
            return False
        return all(client.is_done for client in self.clients) and all(
            len(state.isr) == len(state.replicas) for _, state in partitions_of(self.lab)
        )

    def _commits_are_kept(self) -> None:
        """An acknowledged commit is not lost."""
        name = self.lab.store.image.topics[TOPIC]
        asked = OffsetFetchRequestTopics(name=TOPIC, topic_id=name.topic_id, partition_indexes=(0,))
        groups = tuple(
            OffsetFetchRequestGroup(group_id=group, topics=(asked,))
            for group in self.told.committed
        )
        found: dict[str, int] = {}
        for node in self.lab.nodes:
            if groups:
                answer = node.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse)
                for group in answer.groups:
                    if not group.error_code:
                        found[group.group_id] = group.topics[0].partitions[0].committed_offset
        for group_id, offset in self.told.committed.items():
            check(
                found.get(group_id) == offset,
                f"the commit of {group_id} was acknowledged as {offset}: {found.get(group_id)}",
            )

    def _transactions_are_whole(self) -> None:
        """As a reader of committed records sees them, from the beginning."""
        visible = {}
        for place, state in partitions_of(self.lab):
            if place.topic == TOPIC:
                data = self._read_committed(place, self.lab.nodes[state.leader])
                check(not data.error_code, f"a reader of {place} is told {data.error_code.name}")
                check(
                    data.last_stable_offset == data.high_watermark,
                    f"in {place} a transaction is open at rest, from {data.last_stable_offset} on",
                )
                assert data.records is None or isinstance(data.records, memoryview)
                aborted = [
                    (each.producer_id, each.first_offset)
                    for each in data.aborted_transactions or ()
                ]
                found = committed_only(records_of(bytes(data.records or b"")), aborted, 0)
                visible[place] = list(found.values())
                self.told.views_are_right(place, found)
        self.told.transactions_are_whole(visible)

    def _read_committed(self, place: TopicPartition, leader: MemberNode) -> PartitionData:
        asked = FetchPartition(partition=place.partition, partition_max_bytes=1 << 30)
        topic_id = self.lab.store.image.topics[place.topic].topic_id
        request = FetchRequest(
            isolation_level=1, topics=(FetchTopic(topic_id=topic_id, partitions=(asked,)),)
        )
        ((data,),) = (each.partitions for each in leader.ask(request, FetchResponse).responses)
        return data

    def say(self, text: str) -> None:
        states = (
            f"{place.topic[:4]}{place.partition} {state.leader}/{state.leader_epoch} of {state.isr}"
            for place, state in partitions_of(self.lab)
            if place.topic == TOPIC
        )
        controller = self.lab.store.image.controller_id
        now_ms = self.lab.time.now_ms - 1_000_000
        self.trace.append(f"{now_ms:7} {text}; by {controller}; {', '.join(states)}")

    # What befalls brokers.

    def _some(self) -> MemberNode:
        return self.dice.choice(self.lab.nodes)

    def _crash(self) -> None:
        node, loses_power = self._some(), self.dice.random() < 0.5
        controller_id = self.lab.store.image.controller_id
        if self.dice.random() < 0.3 and controller_id != NO_CONTROLLER:
            node = self.lab.nodes[controller_id]
        may = self._may_lose_power if loses_power else self._may_go
        if not node.is_up or not may(node):
            return
        self.say(f"{node.node_id} {'loses power' if loses_power else 'dies'}")
        node.crash(loses_power=loses_power)
        self._shake(node, SESSION_MS + _SHAKY_MS)
        if loses_power:
            for place, state in partitions_of(self.lab):
                if node.node_id in state.replicas:
                    self.wiped[place, node.node_id] = None

    def _restart(self) -> None:
        down = [node for node in self.lab.nodes if not node.is_up]
        if down:
            self._start(self.dice.choice(down))

    def _start(self, node: MemberNode) -> None:
        self.say(f"{node.node_id} starts")
        # A former session may still have to end.
        self._shake(node, SESSION_MS + _SHAKY_MS)
        node.start()

    def _cut(self) -> None:
        node, other = self._some(), self._some()
        if self.dice.random() < 0.5:
            self.lab.network.isolate(node.node_id)
            self.say(f"{node.node_id} is isolated")
        elif other is not node:
            self.lab.network.cut_one_way(node.node_id, other.node_id)
            self.say(f"{node.node_id} does not reach {other.node_id}")

    def _expire(self) -> None:
        node = self._some()
        if self._may_be_shaken(node):
            self._shake(node, _SHAKY_MS)
            node.session.expire()
            self.say(f"the session of {node.node_id} ends")

    def _lose_store(self) -> None:
        node = self._some()
        if self._may_be_shaken(node):
            self._shake(node, None)
            self._cut_off[node.node_id] = None
            node.session.cut()
            self.say(f"{node.node_id} does not reach the store")

    def _find_store(self) -> None:
        for node in self.lab.nodes:
            if node.node_id in self._cut_off:
                del self._cut_off[node.node_id]
                if node.is_up:
                    node.session.heal()
                    self._shake(node, SESSION_MS + _SHAKY_MS)
                    self.say(f"{node.node_id} reaches the store")

    def _roll(self) -> None:
        """A clean end, as in a rolling restart; somebody starts it again."""
        node = self._some()
        if self._may_be_shaken(node):
            self.say(f"{node.node_id} is told to stop")
            self._shake(node, None)
            node.stop()

    def _may_be_shaken(self, node: MemberNode) -> bool:
        return node.is_up and not self._is_shaken(node) and self._may_go(node)

    # What the script may do without breaking what the cluster may rely on.

    def _may_go(self, node: MemberNode) -> bool:
        """Whether a broker may die or be taken for dead.

        While one that lost its power is in sync by name, the others in sync must stay: the last of
        them would leave everything to the one that lost it.
        """
        return not any(
            node.node_id in state.isr and any((place, each) in self.wiped for each in state.isr)
            for place, state in partitions_of(self.lab)
        )

    def _may_lose_power(self, node: MemberNode) -> bool:
        """Whether others keep what is committed, in every partition, and are known to."""
        for place, state in partitions_of(self.lab):
            if node.node_id not in state.replicas:
                continue
            others = [each for each in state.isr if each != node.node_id]
            if not all((place, each) in self.wiped or self._is_safe(each) for each in others):
                return False
            if all((place, each) in self.wiped for each in others):
                return False
            if self._is_being_changed(place):
                return False
        return True

    def _is_safe(self, node_id: NodeId) -> bool:
        is_shaky = self._shaky_until_ms.get(node_id, 0) > self.lab.time.now_ms
        return self.lab.nodes[node_id].is_up and not is_shaky

    def _is_being_changed(self, place: TopicPartition) -> bool:
        """Whether a leader has asked that others be in sync no more: it may come true later."""
        found = [node.partitions.find(*place) for node in self.lab.nodes if node.is_up]
        return any(hosted is not None and hosted.proposal is not None for hosted in found)

    def _shake(self, node: MemberNode, span_ms: int | None) -> None:
        """Somebody may take it for dead until then, or without an end that is known yet."""
        until_ms = _FOR_EVER_MS if span_ms is None else self.lab.time.now_ms + span_ms
        self._shaky_until_ms[node.node_id] = until_ms

    def _is_shaken(self, node: MemberNode) -> bool:
        return self._shaky_until_ms.get(node.node_id) == _FOR_EVER_MS

    def _note_in_sync(self) -> None:
        for place, state in partitions_of(self.lab):
            before = self._isr.get(place)
            if before == state.isr:
                continue
            self._isr[place] = state.isr
            for node_id in state.isr:
                if before is not None and node_id not in before and self._is_itself(node_id):
                    self.wiped.pop((place, node_id), None)

    def _is_itself(self, node_id: NodeId) -> bool:
        """Whether the store means the process that is there, and not one before it.

        A leader may have one taken among the in-sync replicas that has just died.
        """
        node, known = self.lab.nodes[node_id], self.lab.store.image.brokers.get(node_id)
        return node.is_up and known is not None and known.epoch == node.membership.broker_epoch


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Live one seed's life and say how it went."""
    life = ClusterLife(seed)
    failure: str | None = None
    try:
        for number in range(steps):
            life.step()
            if number % _COMPARE_EVERY == 0:
                life.checks.compare(life.lab, life.wiped)
        life.finish()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=life.trace, acknowledged=len(life.told.places), failure=failure)
