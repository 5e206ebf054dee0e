"""A transactional producer of a simulated cluster: it commits, aborts, and gives up.

Note: after any error it does not ask for the state of its transaction. It starts again under the
same id, like a restarted application, and the coordinator ends what was open; a commit that was
requested may then have taken effect or not.
"""

from __future__ import annotations

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import NO_LEADER
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.produce import ProduceRequest
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.labs.lab_node import ClusterLab
from tests.simulation.worlds.cluster_acknowledgements import Attempt, ClientGuarantees
from tests.simulation.worlds.cluster_clients import (
    BACKOFF_MS,
    GROUPS,
    PAUSE_MS,
    TIMEOUT_MS,
    TOPIC,
    Client,
    produce,
    produced,
)

_TRANSACTIONS: Final = 1
_TIMEOUT_MS: Final = 5_000
_MOST_PIPELINED: Final = 4
_AT_ONCE_MS: Final = 2


class TransactionalProducer(Client):
    """It writes to any partition of the topic."""

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        self._name = f"x{number}"
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[int, int] = {}
        self._attempt: Attempt | None = None
        self._is_ready = False
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        """Whether it has left no transaction open."""
        return self._is_ready and self._attempt is None

    def turn(self) -> None:
        if not self._is_ready:
            self._with_coordinator(self._name, _TRANSACTIONS, self._begin)
        elif self._attempt is None:
            if not self.is_leaving:
                self._attempt = Attempt()
                self.told.attempts.append(self._attempt)
                self.told.attempts_of.setdefault(self._name, []).append(self._attempt)
                self._rest(_AT_ONCE_MS)
        elif self.is_leaving or (self._attempt.values and self._rng.random() < 0.3):
            self._with_coordinator(self._name, _TRANSACTIONS, self._end)
        elif self._rng.random() < 0.2:
            self._with_coordinator(self._name, GROUPS, self._commit_offset)
        else:
            self._send(self._attempt)

    def _refused(self, code: ErrorCode) -> None:
        self._give_up()
        super()._refused(code)

    def _failed(self, error: HeadwaterError) -> None:
        self._give_up()
        super()._failed(error)

    def _give_up(self) -> None:
        self._attempt = None
        self._is_ready = False

    def _begin(self, coordinator: NodeId) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=_TIMEOUT_MS
        )
        self._ask(coordinator, request, self._begun)

    def _begun(self, response: Message) -> None:
        assert isinstance(response, InitProducerIdResponse)
        if response.error_code:
            self._refused(response.error_code)
            return
        self._become(response.producer_id, response.producer_epoch)
        self._is_ready = True
        self._rest(PAUSE_MS)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._sequences = {}

    def _send(self, attempt: Attempt) -> None:
        """Send some batches without waiting in between, and continue when all are answered."""
        topic = self._lab.store.image.topics[TOPIC]
        batches: list[tuple[NodeId, ProduceRequest]] = []
        for _ in range(self._rng.randint(1, _MOST_PIPELINED)):
            number = self._rng.randrange(len(topic.partitions))
            leader = self._leader_of(TopicPartition(TOPIC, number))
            if leader == NO_LEADER:
                continue
            batch = self._batch(attempt, number)
            batches.append((leader, produce(topic.topic_id, number, batch, owner=self._name)))
        if not batches:
            self._rest(BACKOFF_MS)
            return
        left = len(batches)
        failures: list[ErrorCode | HeadwaterError] = []

        def answered(failure: ErrorCode | HeadwaterError) -> None:
            nonlocal left
            left -= 1
            if failure:
                failures.append(failure)
            if left:
                return
            if not failures:
                self._rest(PAUSE_MS)
            elif isinstance(failures[0], ErrorCode):
                self._refused(failures[0])
            else:
                self._failed(failures[0])

        for leader, request in batches:
            self._ways.send_request(
                leader,
                request,
                purpose=Purpose.TO_CONTROLLER,
                timeout_ms=TIMEOUT_MS,
                then=lambda response: answered(produced(response).error_code),
                on_error=answered,
            )

    def _batch(self, attempt: Attempt, number: int) -> bytes:
        value = b"%s.%d.%d" % (
            self._name.encode(),
            len(self.told.attempts),
            len(attempt.values),
        )
        attempt.values.append((TopicPartition(TOPIC, number), value))
        sequence = self._sequences.get(number, 0)
        self._sequences[number] = sequence + 1
        return build_batch(
            [Record(key=None, value=value, timestamp=1_000_000)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def _commit_offset(self, coordinator: NodeId) -> None:
        """For a group with the producer's own name (TX-12)."""
        attempt = self._attempt
        assert attempt is not None
        offset = len(self.told.attempts_of[self._name])
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
        )

        def committed(response: Message) -> None:
            assert isinstance(response, TxnOffsetCommitResponse)
            ((answer,),) = (topic.partitions for topic in response.topics)
            if answer.error_code:
                self._refused(answer.error_code)
                return
            attempt.offset = offset
            self._rest(PAUSE_MS)

        self._ask(coordinator, request, committed)

    def _end(self, coordinator: NodeId) -> None:
        attempt = self._attempt
        assert attempt is not None
        is_commit = bool(attempt.values) and self._rng.random() < 0.7
        attempt.is_end_asked = is_commit
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )

        def ended(response: Message) -> None:
            assert isinstance(response, EndTxnResponse)
            if response.error_code:
                self._refused(response.error_code)
                return
            attempt.is_committed = is_commit
            self._attempt = None
            self._become(response.producer_id, response.producer_epoch)
            self._rest(_AT_ONCE_MS if self._rng.random() < 0.5 else PAUSE_MS)

        self._ask(coordinator, request, ended)
