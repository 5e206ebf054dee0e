"""Produce: append batches to partitions, each for itself (MIN-1 to MIN-5, PV-1 to PV-9).

Everything that can be appended at once is, while the request's bytes are still in the connection's
buffer. What a reader would get wrong: with acks=0 nobody hears of an error, so the connection is
closed instead, and the client looks for the reason in fresh metadata. Kafka does this.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.leader_hints import PRODUCE_SINCE, hint_producer
from headwater.broker.transaction_requests import may_transact
from headwater.broker.transactional_produce import (
    Records,
    TransactionalBatch,
    TransactionalProduce,
)
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_names import INTERNAL_TOPICS
from headwater.model.errors import ErrorCode
from headwater.model.failures import (
    BatchError,
    HeadwaterError,
    InvalidRecord,
    InvalidTimestamp,
    ProducerEpochRefused,
    ProtocolError,
    RecordsRefused,
    SequenceRefused,
    StorageError,
)
from headwater.model.ids import TopicId
from headwater.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    FLAGS_POSITION,
    TRANSACTIONAL_FLAG,
    Codec,
)
from headwater.records.kernel import write_single_produce
from headwater.records.preparation import PreparedBatch
from headwater.records.single_produce import SingleProduce
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.preparing import Ready, append_in_turn
from headwater.security.authorization import Operation, Principal
from headwater.storage.appending import Appended
from headwater.storage.partition_log import PartitionLog
from headwater.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_NO_OFFSET: Final = -1
_ALL: Final = -1
_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_SPECIAL_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_WRITE: Final = Operation.WRITE
_ADMIN_CLIENT: Final = "__admin_client"

# What Kafka finds only when it holds a batch against its log, and then tells where that begins.
_AGAINST_THE_LOG: Final = (InvalidRecord, InvalidTimestamp, SequenceRefused, ProducerEpochRefused)

# With words for those whose clients would take them for something else. Kafka does this (4.1).
_UNVERIFIED: Final = {
    ErrorCode.INVALID_TXN_STATE: "the partition is not in the transaction",
    ErrorCode.NOT_ENOUGH_REPLICAS: "whether the partition is in the transaction is not known yet",
}

Place = tuple[list[PartitionProduceResponse], int]

_NOT_YET: Final = PartitionProduceResponse()
_NONE_HERE: Final[Mapping[int, HostedPartition]] = {}


def handle_at_once(broker: Broker, principal: Principal, produce: SingleProduce) -> bytes | None:
    """The whole answer to the usual request: one good batch for one partition of ours.

    None leaves the request to `handle`, with nothing done: whatever is refused here, for any
    reason, is refused there again, and told.
    """
    version, _, acks, topic, index, records = produce
    if version >= _IDS_SINCE:
        found = broker.partitions.by_id(TopicId(topic))
    else:
        found = broker.partitions.by_name(str(topic, "utf-8", "replace"))
    hosted = None if found is None else found.get(index)
    if hosted is None or hosted.log is None or hosted.refuse() is not None:
        return None
    log = hosted.log
    # Where other replicas have to have it too, the answer waits, and that is for `handle`.
    if (acks != 1 and (acks != _ALL or hosted.leading is not None)) or (
        log.takes_its_time
        or hosted.waiting
        or len(records) <= FLAGS_POSITION
        or records[FLAGS_POSITION] & _SPECIAL_FLAGS
        or hosted.topic.name in INTERNAL_TOPICS
        or not broker.authorizer.authorize(principal, _WRITE, hosted.topic.resource)
    ):
        return None
    try:
        appended = log.append_as_leader(
            records, leader_epoch=hosted.state.leader_epoch, now_ms=broker.clock.now_ms()
        )
    except HeadwaterError:
        return None
    if not appended.is_duplicate:
        _note(hosted, log, appended, len(records))
    return write_single_produce(
        produce, appended.base_offset, appended.append_time_ms, log.log_start_offset
    )


def handle(broker: Broker, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    now_ms = broker.clock.now_ms()
    gathering = _Gathering(broker, request, call)
    if gathering.transaction is not None:
        _look_for_producers(request, gathering.transaction)
    for topic in request.topic_data:
        gathering.begin(topic)
        partitions, refusal = _partitions_of(broker, topic, call)
        for data in topic.partition_data:
            hosted = partitions.get(data.index)
            if hosted is None:
                name = topic.topic_id if call.version >= _IDS_SINCE else topic.name
                code = refusal or broker.partitions.missing(name, data.index)
                gathering.put(gathering.refused(data.index, code))
            else:
                _put(broker, hosted, data, gathering, now_ms)
    if gathering.transaction is not None:
        gathering.transaction.ask()
    return gathering.finish()


def refuse(request: ProduceRequest, refusal: Refusal) -> ProduceResponse:
    if request.acks == 0:
        raise ProtocolError(f"a Produce that nobody waits for failed: {refusal.code.name}")
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=each.index,
                        error_code=refusal.code,
                        base_offset=_NO_OFFSET,
                        error_message=refusal.reason,
                    )
                    for each in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )


class _Gathering:
    """The answers of one request, some of which may come later.

    The common case is one partition that is answered at once, so nothing is made beforehand.
    """

    __slots__ = (
        "_answers",
        "_broker",
        "_call",
        "_has_error",
        "_is_late",
        "_missing",
        "_timeout_ms",
        "_topics",
        "_unflushed",
        "_waits",
        "acks",
        "is_done",
        "transaction",
    )

    def __init__(self, broker: Broker, request: ProduceRequest, call: Call) -> None:
        self.acks = request.acks
        # `headwater.replication.deadlines.Waiter`, while it waits for other replicas.
        self.is_done = True
        self._broker = broker
        self._timeout_ms = request.timeout_ms
        self._waits: dict[_CommitWait, None] = {}
        # Set where the request's client may write transactional batches.
        self.transaction = _transaction_of(broker, request, call)
        self._call = call
        self._answers: list[PartitionProduceResponse] = []
        self._topics: list[tuple[TopicProduceData, list[PartitionProduceResponse]]] = []
        self._missing = 0
        self._has_error = False
        self._is_late = False
        self._unflushed: list[tuple[PartitionProduceResponse, PartitionProduceResponse]] = []

    def begin(self, topic: TopicProduceData) -> None:
        """What is put from now on is about this topic."""
        self._answers = []
        self._topics.append((topic, self._answers))

    def put(self, answer: PartitionProduceResponse) -> None:
        self._answers.append(answer)

    def place(self) -> Place:
        """A place in the answer that is filled later."""
        self._missing += 1
        self._answers.append(_NOT_YET)
        return self._answers, len(self._answers) - 1

    def fill(self, place: Place, answer: PartitionProduceResponse) -> None:
        answers, index = place
        answers[index] = answer
        self._one_less()

    def refuse(self, data: PartitionProduceData) -> ErrorCode | None:
        """What the request alone tells against a batch, before its log looks at it."""
        if not -1 <= self.acks <= 1:
            return ErrorCode.INVALID_REQUIRED_ACKS
        records = data.records
        if not records:
            return ErrorCode.INVALID_RECORD
        flags = records[FLAGS_POSITION] if len(records) > FLAGS_POSITION else 0
        if flags & TRANSACTIONAL_FLAG and self.transaction is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if flags & CODEC_MASK == Codec.ZSTD and self._call.version < _ZSTD_SINCE:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    def refused(
        self,
        index: int,
        code: ErrorCode,
        message: str | None = None,
        log_start_offset: int = _NO_OFFSET,
        blamed: tuple[int, ...] = (),
    ) -> PartitionProduceResponse:
        self._has_error = True
        self._call.note_error(code)
        return PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=_NO_OFFSET,
            log_start_offset=log_start_offset,
            record_errors=tuple(
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
                for number in blamed
            ),
            error_message=message,
        )

    def await_flush(self, log: PartitionLog, answer: PartitionProduceResponse) -> None:
        """The topic wants its records on disk before they are acknowledged."""
        self._missing += 1

        def flushed(failure: StorageError | None) -> None:
            if failure is not None:
                refused = self.refused(answer.index, failure.code, str(failure))
                self._unflushed.append((answer, refused))
            self._one_less()

        log.flush(flushed)

    # Waiting for the other replicas (MIN-2 to MIN-5).

    def await_commit(
        self, hosted: HostedPartition, answer: PartitionProduceResponse, offset: int
    ) -> None:
        """All in-sync replicas shall have it before it is acknowledged."""
        wait = _CommitWait(self, hosted, answer)
        if not hosted.await_commit(wait, offset):
            return
        self._missing += 1
        self._waits[wait] = None
        if self.is_done:
            self.is_done = False
            broker = self._broker
            broker.deadlines.add(broker.clock.steady_ms() + self._timeout_ms, self)

    def committed(self, wait: "_CommitWait", code: ErrorCode) -> None:
        del self._waits[wait]
        if not self._waits:
            self._end_wait()
        if code:
            self._spoil(wait.answer, code)
        self._one_less()

    @property
    def is_gone(self) -> bool:
        return self._call.is_gone

    def expire(self) -> None:
        """Those that are not everywhere yet are told so; the others keep their result."""
        self._end_wait()
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.hosted.leave_commit(wait)
            self._spoil(wait.answer, ErrorCode.REQUEST_TIMED_OUT)
            self._one_less()

    def _end_wait(self) -> None:
        self.is_done = True
        self._broker.deadlines.ended()

    def _spoil(self, answer: PartitionProduceResponse, code: ErrorCode) -> None:
        """The records stay in the log, so the answer still tells their offset."""
        self._has_error = True
        self._call.note_error(code)
        for _, answers in self._topics:
            for index, each in enumerate(answers):
                if each is answer:
                    answers[index] = replace(answer, error_code=code)
                    return

    def finish(self) -> ProduceResponse | None:
        """All partitions have been looked at."""
        if self._missing:
            self._is_late = True
            return None
        return self._conclude()

    def _one_less(self) -> None:
        self._missing -= 1
        if self._is_late and not self._missing:
            response = self._conclude()
            if response is not None:
                self._call.answer(response)

    def _conclude(self) -> ProduceResponse | None:
        if self.acks == 0:
            if self._has_error:
                self._call.cut()
            self._call.finish()
            return None
        response = ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(map(self._final, answers)),
                )
                for topic, answers in self._topics
            )
        )
        if self._has_error and self._call.version >= PRODUCE_SINCE:
            return hint_producer(self._broker, self._call, response)
        return response

    def _final(self, answer: PartitionProduceResponse) -> PartitionProduceResponse:
        """The answer that stands, now that all flushes have ended."""
        for given, refused in self._unflushed:
            if given is answer:
                return refused
        return answer


class _CommitWait:
    """One partition of a request: `headwater.replication.commit_waits.CommitWait`."""

    __slots__ = ("_gathering", "answer", "hosted")

    def __init__(
        self, gathering: _Gathering, hosted: HostedPartition, answer: PartitionProduceResponse
    ) -> None:
        self._gathering = gathering
        self.hosted = hosted
        self.answer = answer

    def committed(self, code: ErrorCode) -> None:
        self._gathering.committed(self, code)


def _transaction_of(
    broker: Broker, request: ProduceRequest, call: Call
) -> TransactionalProduce | None:
    transactional_id = request.transactional_id
    if transactional_id is None or not may_transact(broker, call, transactional_id):
        return None
    return TransactionalProduce(broker, transactional_id, call.version)


def _look_for_producers(request: ProduceRequest, transaction: TransactionalProduce) -> None:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and _is_transactional(data.records):
                transaction.look_at(data.records)


def _is_transactional(records: memoryview) -> bool:
    return len(records) > FLAGS_POSITION and bool(records[FLAGS_POSITION] & TRANSACTIONAL_FLAG)


def _partitions_of(
    broker: Broker, topic: TopicProduceData, call: Call
) -> tuple[Mapping[int, HostedPartition], ErrorCode | None]:
    """The partitions of a topic that are here, and what is wrong with the topic as a whole."""
    if call.version >= _IDS_SINCE:
        name = broker.image.names_by_id.get(topic.topic_id)
        found = broker.partitions.by_id(topic.topic_id)
    else:
        name = topic.name if topic.name in broker.image.topics else None
        found = broker.partitions.by_name(topic.name)
    if name is None:
        return _NONE_HERE, None
    if not broker.may_topic(call, Operation.WRITE, name):
        return _NONE_HERE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
        return _NONE_HERE, ErrorCode.INVALID_TOPIC_EXCEPTION
    return found or _NONE_HERE, None


def _put(
    broker: Broker,
    hosted: HostedPartition,
    data: PartitionProduceData,
    gathering: _Gathering,
    now_ms: int,
) -> None:
    """Append a batch now, or when a thread has opened it and its turn has come."""
    code = hosted.refuse() or gathering.refuse(data)
    if code is not None:
        gathering.put(gathering.refused(data.index, code))
        return
    records = data.records
    assert records is not None
    try:
        log = hosted.opened()
    except HeadwaterError as error:
        gathering.put(gathering.refused(data.index, error.code, str(error)))
        return
    if gathering.acks == _ALL and hosted.lacks_replicas(log.settings.min_insync_replicas):
        gathering.put(gathering.refused(data.index, ErrorCode.NOT_ENOUGH_REPLICAS))
    elif _is_transactional(records):
        _put_transactional(broker, hosted, log, data.index, records, gathering)
    elif hosted.waiting or log.needs_preparation(records):
        _put_in_turn(broker, hosted, log, data.index, records, gathering, gathering.place())
    else:
        gathering.put(_append(hosted, log, data.index, records, gathering, now_ms))


def _put_transactional(
    broker: Broker,
    hosted: HostedPartition,
    log: PartitionLog,
    index: int,
    records: memoryview,
    gathering: _Gathering,
) -> None:
    """Append a batch of a transaction, as soon as its transaction may be opened here (TX-13)."""
    place = gathering.place()

    def append(batch: TransactionalBatch, records: Records) -> None:
        if hosted.waiting or log.needs_preparation(records):
            _put_in_turn(broker, hosted, log, index, records, gathering, place, batch)
            return
        now_ms = broker.clock.now_ms()
        ready = _append_ready(hosted, index, records, gathering, now_ms, batch)
        gathering.fill(place, ready)

    def refuse_batch(code: ErrorCode) -> None:
        gathering.fill(place, gathering.refused(index, code, _UNVERIFIED.get(code)))

    assert gathering.transaction is not None, "else the batch was refused"
    try:
        gathering.transaction.take(hosted, log, records, append=append, refuse=refuse_batch)
    except BatchError as error:
        gathering.fill(place, _refused(error, log, index, gathering))


def _put_in_turn(
    broker: Broker,
    hosted: HostedPartition,
    log: PartitionLog,
    index: int,
    records: Records,
    gathering: _Gathering,
    place: Place,
    batch: TransactionalBatch | None = None,
) -> None:
    """Append a batch when a thread has opened it and its turn has come."""

    def append(ready: Ready) -> None:
        now_ms = broker.clock.now_ms()
        gathering.fill(place, _append_ready(hosted, index, ready, gathering, now_ms, batch))

    append_in_turn(
        hosted,
        log,
        bytearray(records),
        executor=broker.executor,
        now_ms=broker.clock.now_ms(),
        then=append,
    )


def _append_ready(
    hosted: HostedPartition,
    index: int,
    ready: Ready | memoryview,
    gathering: _Gathering,
    now_ms: int,
    batch: TransactionalBatch | None,
) -> PartitionProduceResponse:
    """Append a batch that has waited: meanwhile its partition may have gone, or its leadership."""
    log, refusal = hosted.log, hosted.refuse()
    if log is None:
        return gathering.refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if refusal is not None:
        return gathering.refused(index, refusal)
    if isinstance(ready, HeadwaterError):
        return _refused(ready, log, index, gathering)
    if gathering.acks == _ALL and hosted.lacks_replicas(log.settings.min_insync_replicas):
        return gathering.refused(index, ErrorCode.NOT_ENOUGH_REPLICAS)
    return _append(hosted, log, index, ready, gathering, now_ms, batch)


def _append(
    hosted: HostedPartition,
    log: PartitionLog,
    index: int,
    batch: memoryview | bytearray | PreparedBatch,
    gathering: _Gathering,
    now_ms: int,
    transactional: TransactionalBatch | None = None,
) -> PartitionProduceResponse:
    epoch = hosted.leader_epoch
    try:
        if transactional is not None:
            transactional.check(hosted, log)
        if isinstance(batch, PreparedBatch):
            appended = log.append_prepared(batch, leader_epoch=epoch, now_ms=now_ms)
            size_bytes = batch.header.size_bytes
        else:
            appended = log.append_as_leader(batch, leader_epoch=epoch, now_ms=now_ms)
            size_bytes = len(batch)
    except HeadwaterError as error:
        return _refused(error, log, index, gathering)
    answer = PartitionProduceResponse(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=log.log_start_offset,
    )
    if not appended.is_duplicate:
        if transactional is not None:
            transactional.written(hosted)
        _note(hosted, log, appended, size_bytes)
        if log.needs_flush:
            gathering.await_flush(log, answer)
    if gathering.acks == _ALL and log.high_watermark <= appended.last_offset:
        gathering.await_commit(hosted, answer, appended.last_offset + 1)
    return answer


def _refused(
    error: HeadwaterError, log: PartitionLog, index: int, gathering: _Gathering
) -> PartitionProduceResponse:
    if not isinstance(error, _AGAINST_THE_LOG):
        return gathering.refused(index, error.code, str(error))
    blamed = error.record_indexes if isinstance(error, RecordsRefused) else ()
    return gathering.refused(index, error.code, str(error), log.log_start_offset, blamed)


def _note(hosted: HostedPartition, log: PartitionLog, appended: Appended, size_bytes: int) -> None:
    topic = hosted.topic
    topic.records_in += appended.last_offset - appended.base_offset + 1
    topic.bytes_in += size_bytes
    hosted.advanced(log, size_bytes)
