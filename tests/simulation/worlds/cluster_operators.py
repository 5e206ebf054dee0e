"""Operators that reassign partitions and create and delete topics during faults.

Note: a request whose response was lost may take effect later, and twice. So a topic is deleted by
its id, and after a creation a topic of that name counts as the created one if it is not one that
has been deleted.
"""

from __future__ import annotations

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import NO_LEADER
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.elect_leaders import ElectLeadersRequest
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.lab_node import DIRECTORIES, ClusterLab
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, Incarnation, check
from tests.simulation.worlds.cluster_clients import (
    BACKOFF_MS,
    PAUSE_MS,
    TIMEOUT_MS,
    TOPIC,
    Client,
    produce,
    produced,
)

SHORT_LIVED: Final = "u"
REPLICAS: Final = 3
_MOST_PARTITIONS: Final = 5
_CHURNED: Final = 4
_MOVE_MS: Final = 2_500


class Mover(Client):
    """Reassigns partitions to other brokers and disks, cancels, and adds partitions."""

    is_done = True

    def turn(self) -> None:
        if self.is_leaving:
            return
        chance = self._rng.random()
        if chance < 0.1:
            self._ask(self._some_broker(), self._growth(), self._answered)
        elif chance < 0.2:
            wanted = ElectLeadersRequest(topic_partitions=None, timeout_ms=TIMEOUT_MS)
            self._ask(self._some_broker(), wanted, self._answered)
        elif chance < 0.45:
            self._ask(self._some_broker(), self._move_between_disks(), self._answered)
        else:
            self._ask(self._some_broker(), self._move(is_back=chance < 0.55), self._answered)

    def _answered(self, _: Message) -> None:
        self._rest(_MOVE_MS)

    def _growth(self) -> Message:
        count = len(self._lab.store.image.topics[TOPIC].partitions)
        asked = CreatePartitionsTopic(
            name=TOPIC, count=min(count + 1, _MOST_PARTITIONS), assignments=None
        )
        return CreatePartitionsRequest(topics=(asked,), timeout_ms=TIMEOUT_MS)

    def _move_between_disks(self) -> Message:
        """On any broker, which may already be moving it."""
        topics = self._lab.store.image.topics
        name = self._rng.choice(sorted(topics))
        numbers = tuple(range(len(topics[name].partitions)))
        path = str(self._rng.choice(DIRECTORIES))
        moved = AlterReplicaLogDirTopic(name=name, partitions=numbers)
        return AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=(moved,)),))

    def _move(self, *, is_back: bool) -> Message:
        """Of any topic, also of the internal ones."""
        topics = self._lab.store.image.topics
        name = self._rng.choice(sorted(topics))
        number = self._rng.randrange(len(topics[name].partitions))
        nodes = [node.node_id for node in self._lab.nodes]
        replicas = tuple(self._rng.sample(nodes, REPLICAS))
        asked = ReassignablePartition(
            partition_index=number, replicas=None if is_back else replicas
        )
        return AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=(ReassignableTopic(name=name, partitions=(asked,)),),
        )


class Founder(Client):
    """Creates a topic, writes to it, deletes it, and creates another one of the same name."""

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        self._current: Incarnation | None = None
        self._is_asked = False
        self._count = 0
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        return not self._is_asked

    def turn(self) -> None:
        if self.is_leaving and not self._is_asked:
            return
        if self._current is None:
            self._is_asked = True
            self._ask(self._some_broker(), _creation(), self._made)
        elif self._is_asked or self._rng.random() < 0.1:
            self._is_asked = True
            self._current.is_going = True
            self._ask(self._some_broker(), _deletion(self._current.topic_id), self._deleted)
        else:
            self._write(self._current)

    def _made(self, response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse)
        (answer,) = response.topics
        topic_id = answer.topic_id
        if answer.error_code is ErrorCode.TOPIC_ALREADY_EXISTS:
            image = self._known()
            known = None if image is None else image.topics.get(SHORT_LIVED)
            is_usable = known is not None and known.topic_id not in self.told.incarnations
            if known is None or not is_usable:
                self._refused(answer.error_code)
                return
            topic_id = known.topic_id
        elif answer.error_code:
            self._refused(answer.error_code)
            return
        self._current = Incarnation(len(self.told.incarnations), topic_id)
        self.told.incarnations[topic_id] = self._current
        self._is_asked = False
        self._rest(PAUSE_MS)

    def _deleted(self, response: Message) -> None:
        assert isinstance(response, DeleteTopicsResponse)
        (answer,) = response.responses
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
            self._refused(answer.error_code)
            return
        assert self._current is not None
        self._current.is_disconnected = True
        self._current, self._is_asked = None, False
        self._rest(4 * PAUSE_MS)

    def _write(self, current: Incarnation) -> None:
        place = TopicPartition(SHORT_LIVED, self._rng.randrange(2))
        leader = self._leader_of(place)
        if leader == NO_LEADER:
            self._rest(BACKOFF_MS)
            return
        self._count += 1
        value = b"u%d.%d" % (current.number, self._count)
        batch = build_batch([Record(key=None, value=value, timestamp=1_000_000)])

        def written(response: Message) -> None:
            answer = produced(response)
            if answer.error_code:
                self._refused(answer.error_code)
                return
            current.places[place.partition, answer.base_offset] = value
            self._rest(2 * PAUSE_MS)

        request = produce(current.topic_id, place.partition, batch)
        self._ask(NodeId(leader), request, written)


class TopicChurner(Client):
    """Creates several topics in one request and deletes them in one request, repeatedly.

    Its topic names are its own. So where nothing is lost, no response says that a topic exists or
    does not exist. Elsewhere an earlier try of the same request may have been executed.
    """

    def __init__(
        self,
        lab: ClusterLab,
        told: ClientGuarantees,
        number: int,
        *,
        is_anything_lost: bool = True,
    ) -> None:
        self._is_anything_lost = is_anything_lost
        self.rounds = 0
        self._names = [f"churn-{number}-{each}" for each in range(_CHURNED)]
        self._are_made = False
        self._is_asked = False
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        return not self._is_asked and not self._are_made

    def turn(self) -> None:
        if self.is_leaving and self.is_done:
            return
        self._is_asked = True
        request: Message
        if self._are_made:
            deleted = tuple(DeleteTopicState(name=name) for name in self._names)
            request = DeleteTopicsRequest(topics=deleted, timeout_ms=TIMEOUT_MS)
        else:
            created = tuple(topic(name, 1, 2) for name in self._names)
            request = CreateTopicsRequest(topics=created, timeout_ms=TIMEOUT_MS)
        self._ask(self._some_broker(), request, self._answered)

    def _answered(self, response: Message) -> None:
        if isinstance(response, CreateTopicsResponse):
            codes = [each.error_code for each in response.topics]
            repeated = ErrorCode.TOPIC_ALREADY_EXISTS
        else:
            assert isinstance(response, DeleteTopicsResponse)
            codes = [each.error_code for each in response.responses]
            repeated = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        check(
            self._is_anything_lost or repeated not in codes,
            f"client {self.number} has topics of its own and got {repeated.name}",
        )
        others = [code for code in codes if code not in (ErrorCode.NONE, repeated)]
        if others:
            self._refused(others[0])
            return
        self._are_made = not self._are_made
        self._is_asked = False
        self.rounds += not self._are_made
        self._rest(PAUSE_MS)


def _creation() -> Message:
    return CreateTopicsRequest(topics=(topic(SHORT_LIVED, 2, REPLICAS),), timeout_ms=TIMEOUT_MS)


def _deletion(topic_id: TopicId) -> Message:
    return DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),), timeout_ms=TIMEOUT_MS)
