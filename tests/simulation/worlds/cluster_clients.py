"""Clients of a simulated cluster: one request at a time, retried until answered.

They are on the same network as the brokers, so their connections break and responses are lost.

Note: a client has the metadata of some broker, which may be outdated, and what it sent before it
gave up may still arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.fake_network import Reply
from tests.simulation.labs.lab_node import ClusterLab
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees
from tests.simulation.worlds.cluster_records import committed_only, records_of

TOPIC: Final = "t"
GROUPS: Final = 0
_FIRST_CLIENT: Final = 1_000
TIMEOUT_MS: Final = 1_500
PAUSE_MS: Final = 60
BACKOFF_MS: Final = 100
_FETCH_WAIT_MS: Final = 100
_MAX_BYTES: Final = 1 << 20


class Client(ABC):
    """`turn` is called when nothing is in flight."""

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        self.number = number
        self.told = told
        # Set for the end of a run: finish what was started, and start nothing.
        self.is_leaving = False
        self.trouble = "nothing"
        self._lab = lab
        self._rng = lab.time.rand
        self._ways = lab.network.join(NodeId(_FIRST_CLIENT + number), _deaf)
        self._rest(PAUSE_MS)

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether nothing that was started is left."""

    @abstractmethod
    def turn(self) -> None:
        """Do the next thing; `_rest` or `_ask` must follow from it."""

    def _ask(self, node_id: NodeId, request: Message, then: Callable[[Message], None]) -> None:
        self._ways.send_request(
            node_id,
            request,
            purpose=Purpose.TO_CONTROLLER,
            timeout_ms=TIMEOUT_MS,
            then=then,
            on_error=self._failed,
        )

    def _rest(self, most_ms: int) -> None:
        self._lab.time.after(1 + self._rng.randrange(most_ms), self.turn)

    def _failed(self, error: HeadwaterError) -> None:
        self.trouble = str(error)
        self._rest(BACKOFF_MS)

    def _refused(self, code: ErrorCode) -> None:
        self.trouble = code.name
        self._rest(BACKOFF_MS)

    def _some_broker(self) -> NodeId:
        return self._rng.choice(self._lab.nodes).node_id

    def _known(self) -> ClusterImage | None:
        """What one of the brokers would answer to a Metadata request."""
        node = self._rng.choice(self._lab.nodes)
        return node.image if node.is_up else None

    def _leader_of(self, place: TopicPartition) -> NodeId:
        image = self._known()
        topic = None if image is None else image.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return NO_LEADER
        return topic.partitions[place.partition].leader

    def _with_coordinator(self, key: str, key_type: int, then: Callable[[NodeId], None]) -> None:
        def found(response: Message) -> None:
            assert isinstance(response, FindCoordinatorResponse)
            (answer,) = response.coordinators
            if answer.error_code:
                self._refused(answer.error_code)
            else:
                then(NodeId(answer.node_id))

        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        self._ask(self._some_broker(), request, found)


class Producer(Client):
    """Idempotent, acks=all: acknowledged records exist, exactly once."""

    def __init__(
        self, lab: ClusterLab, told: ClientGuarantees, number: int, place: TopicPartition
    ) -> None:
        self._place = place
        self._producer_id = -1
        self._sequence = 0
        self._count = 0
        self.values: list[bytes] = []
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        return not self.values

    def turn(self) -> None:
        if self.is_leaving and self.is_done:
            return
        if self._producer_id < 0:
            self._ask(
                self._some_broker(), InitProducerIdRequest(transactional_id=None), self._named
            )
            return
        if not self.values:
            self._begin()
        leader = self._leader_of(self._place)
        if leader == NO_LEADER:
            self._rest(BACKOFF_MS)
            return
        batch = build_batch(
            [Record(key=None, value=value, timestamp=1_000_000) for value in self.values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        topic_id = self._lab.store.image.topics[TOPIC].topic_id
        request = produce(topic_id, self._place.partition, batch)
        self._ask(leader, request, lambda response: self.answered(response))

    def _begin(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self.values.append(b"p%d.%d" % (self.number, self._count))
            self._count += 1
        self.told.sent[self._place, self.number] = self._count

    def _named(self, response: Message) -> None:
        assert isinstance(response, InitProducerIdResponse)
        if response.error_code:
            self._refused(response.error_code)
        else:
            self._producer_id = response.producer_id
            self._rest(PAUSE_MS)

    def answered(self, response: Message) -> None:
        answer = produced(response)
        code = answer.error_code
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._refused(code)
            return
        self.told.acknowledge(self._place, self.number, self.values)
        if code is ErrorCode.NONE:
            for index, value in enumerate(self.values):
                self.told.places[self._place, answer.base_offset + index] = value
        self._sequence += len(self.values)
        self.values = []
        self._rest(PAUSE_MS)


class LooseProducer(Client):
    """acks=1, once: it writes records that may be lost, which followers must truncate."""

    is_done = True

    def turn(self) -> None:
        if self.is_leaving:
            return
        topic = self._lab.store.image.topics[TOPIC]
        place = TopicPartition(TOPIC, self._rng.randrange(len(topic.partitions)))
        leader = self._leader_of(place)
        self._rest(4 * PAUSE_MS)
        if leader != NO_LEADER:
            batch = build_batch([Record(key=None, value=b"loose", timestamp=1_000_000)])
            request = produce(topic.topic_id, place.partition, batch, acks=1)
            self._ways.send_request(
                leader,
                request,
                purpose=Purpose.TO_CONTROLLER,
                timeout_ms=TIMEOUT_MS,
                then=_ignore,
                on_error=_ignore,
            )


class Consumer(Client):
    """Reads a partition from its start, and continues where it was."""

    def __init__(
        self,
        lab: ClusterLab,
        told: ClientGuarantees,
        number: int,
        place: TopicPartition,
        *,
        is_committed_only: bool,
    ) -> None:
        self._place = place
        self._is_committed_only = is_committed_only
        self.position = 0
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        return True

    def turn(self) -> None:
        leader = self._leader_of(self._place)
        if leader == NO_LEADER:
            self._rest(BACKOFF_MS)
            return
        asked = FetchPartition(
            partition=self._place.partition,
            fetch_offset=self.position,
            partition_max_bytes=_MAX_BYTES,
        )
        topic_id = self._lab.store.image.topics[TOPIC].topic_id
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            isolation_level=int(self._is_committed_only),
            topics=(FetchTopic(topic_id=topic_id, partitions=(asked,)),),
        )
        self._ask(leader, request, self._answered)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, FetchResponse)
        (data,) = (each for topic in response.responses for each in topic.partitions)
        code = response.error_code or data.error_code
        if code:
            self._refused(code)
            return
        if data.records:
            assert isinstance(data.records, memoryview)
            read = records_of(bytes(data.records))
            self.told.see(self._place, self.number, self.position, read)
            if self._is_committed_only:
                aborted = [
                    (each.producer_id, each.first_offset)
                    for each in data.aborted_transactions or ()
                ]
                visible = committed_only(read, aborted, self.position)
                self.told.see_committed(self._place, self.number, visible)
            self.position = max(self.position, read[-1].last_offset + 1)
        self._rest(PAUSE_MS)


class Committer(Client):
    """Commits one offset for each of many groups: no late copy can undo a later commit."""

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        self._count = 0
        self._is_begun = False
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        return not self._is_begun

    @property
    def _group(self) -> str:
        return f"g{self.number}.{self._count}"

    def turn(self) -> None:
        if not self.is_leaving or self._is_begun:
            self._is_begun = True
            self._with_coordinator(self._group, GROUPS, self._commit)

    def _commit(self, coordinator: NodeId) -> None:
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._count)
        topic = self._lab.store.image.topics[TOPIC]
        request = OffsetCommitRequest(
            group_id=self._group,
            topics=(
                OffsetCommitRequestTopic(name=TOPIC, topic_id=topic.topic_id, partitions=(place,)),
            ),
        )
        self._ask(coordinator, request, self._answered)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, OffsetCommitResponse)
        ((answer,),) = (topic.partitions for topic in response.topics)
        if answer.error_code:
            self._refused(answer.error_code)
            return
        self.told.committed[self._group] = self._count
        self._count += 1
        self._is_begun = False
        self._rest(4 * PAUSE_MS)


def produce(
    topic_id: TopicId, number: int, batch: bytes, *, acks: int = -1, owner: str | None = None
) -> ProduceRequest:
    data = PartitionProduceData(index=number, records=memoryview(bytearray(batch)))
    return ProduceRequest(
        transactional_id=owner,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=(TopicProduceData(topic_id=topic_id, partition_data=(data,)),),
    )


def produced(response: Message) -> PartitionProduceResponse:
    assert isinstance(response, ProduceResponse)
    ((answer,),) = (topic.partition_responses for topic in response.responses)
    return answer


def _deaf(_: NodeId, __: Message, ___: Reply) -> None:
    """A client gets no requests."""


def _ignore(_: object) -> None:
    """It does not matter."""
