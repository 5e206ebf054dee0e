"""Produce: append batches to partitions (MIN-1 to MIN-5, PV-1 to PV-9).

Each partition succeeds or fails on its own. Batches are appended at once where possible, while the
request is still in the connection's receive buffer. A request of many partitions, or of many bytes,
is appended in steps (`large_produce`).

Note: with acks=0 there is no response for an error, so the connection is closed instead, as in
Kafka; the client then refreshes its metadata.
"""

from collections.abc import Mapping
from typing import Final

from headwater.broker.handlers.data.produce_response import NO_OFFSET, PendingProduceResponse, Place
from headwater.broker.handlers.data.transactional_produce import (
    Records,
    TransactionalBatch,
    TransactionalProduce,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    BatchError,
    HeadwaterError,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequenceNumber,
    ProtocolError,
    RecordValidationError,
    ValidationDeferred,
)
from headwater.common.ids import TopicId
from headwater.common.principal import Requester
from headwater.metadata.internal_topics import INTERNAL_TOPICS
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.records.batch_header import (
    CONTROL_FLAG,
    FLAGS_POSITION,
    TRANSACTIONAL_FLAG,
)
from headwater.records.batch_preparation import PreparedBatch
from headwater.records.kernel import write_single_produce
from headwater.records.kernel.single_produce import SingleProduce
from headwater.replication.partition import Partition
from headwater.replication.pending_appends import Ready, append_in_order
from headwater.security.authorization.authorizer import Operation
from headwater.storage.log.append import LogAppendInfo
from headwater.storage.log.unified_log import UnifiedLog

_ALL: Final = -1
_IDS_SINCE: Final = 13
_SPECIAL_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_WRITE: Final = Operation.WRITE
_ADMIN_CLIENT: Final = "__admin_client"

# Errors that Kafka detects when it compares a batch with the log; these have a log start offset.
_AGAINST_THE_LOG: Final = (
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequenceNumber,
    InvalidProducerEpoch,
)

# Errors with a message, as in Kafka 4.1, since clients could misread the code alone.
_UNVERIFIED: Final = {
    ErrorCode.INVALID_TXN_STATE: "the partition is not in the transaction",
    ErrorCode.NOT_ENOUGH_REPLICAS: "the transaction has not been verified yet",
}

_NONE_HERE: Final[Mapping[int, Partition]] = {}


def handle_at_once(broker: Broker, requester: Requester, produce: SingleProduce) -> bytes | None:
    """Serve the common request fast: one valid batch for one partition led here.

    None leaves the request to `handle`, with nothing done: `handle` detects every error again and
    reports it.
    """
    version, _, acks, topic, index, records = produce
    if version >= _IDS_SINCE:
        found = broker.partitions.by_id(TopicId(topic))
    else:
        found = broker.partitions.by_name(str(topic, "utf-8", "replace"))
    hosted = None if found is None else found.get(index)
    if hosted is None or hosted.log is None or hosted.leadership_error() is not None:
        return None
    log = hosted.log
    # A response that waits for other replicas is left to `handle`.
    if (acks != 1 and (acks != _ALL or hosted.leader_state is not None)) or (
        log.defers_appends
        or hosted.pending_appends
        or len(records) <= FLAGS_POSITION
        or records[FLAGS_POSITION] & _SPECIAL_FLAGS
        or hosted.topic.name in INTERNAL_TOPICS
        # `handle` rejects unauthorized clients and logs the denial.
        or not broker.authorizer.allows(requester, _WRITE, hosted.topic.resource)
    ):
        return None
    try:
        appended = log.append_as_leader(
            records,
            leader_epoch=hosted.state.leader_epoch,
            now_ms=broker.clock.now_ms(),
            may_defer=True,
        )
    except HeadwaterError:
        return None
    if not appended.is_duplicate:
        _count_append(hosted, log, appended, len(records))
    return write_single_produce(
        produce, appended.base_offset, appended.append_time_ms, log.log_start_offset
    )


def handle(broker: Broker, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    now_ms = broker.clock.now_ms()
    answers = PendingProduceResponse(broker, request, call)
    if answers.transaction is not None:
        _check_producers(request, answers.transaction)
    elif _has_transactional(request):
        # The whole request fails, whatever else is in it (PV-8).
        call.record_error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return error_response(
            request, ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        )
    for topic in request.topic_data:
        answers.begin_topic(topic)
        partitions, error = partitions_of(broker, topic, call)
        for data in topic.partition_data:
            hosted = partitions.get(data.index)
            if hosted is None:
                put_missing(broker, topic, data.index, error, answers, call)
            else:
                put_batch(broker, hosted, data, answers, now_ms)
    if answers.transaction is not None:
        answers.transaction.verify()
    return answers.finish()


def error_response(request: ProduceRequest, error: ApiError) -> ProduceResponse:
    if request.acks == 0:
        raise ProtocolError(f"Produce with acks=0 failed: {error.code.name}")
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=each.index,
                        error_code=error.code,
                        base_offset=NO_OFFSET,
                        error_message=error.reason,
                    )
                    for each in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )


def _check_producers(request: ProduceRequest, transaction: TransactionalProduce) -> None:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and is_transactional(data.records):
                transaction.check_producer(data.records)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        data.records is not None and is_transactional(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    )


def is_transactional(records: memoryview) -> bool:
    return len(records) > FLAGS_POSITION and bool(records[FLAGS_POSITION] & TRANSACTIONAL_FLAG)


def partitions_of(
    broker: Broker, topic: TopicProduceData, call: Call
) -> tuple[Mapping[int, Partition], ErrorCode | None]:
    """Return a topic's local partitions, and an error of the topic as a whole."""
    if call.version >= _IDS_SINCE:
        name = broker.image.names_by_id.get(topic.topic_id)
        found = broker.partitions.by_id(topic.topic_id)
    else:
        name = topic.name
        found = broker.partitions.by_name(topic.name)
    if name is None:
        return _NONE_HERE, None
    if not broker.is_authorized_for_topic(call, Operation.WRITE, name):
        # The response must not reveal whether the topic exists.
        return _NONE_HERE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT and name in broker.image.topics:
        return _NONE_HERE, ErrorCode.INVALID_TOPIC_EXCEPTION
    return found or _NONE_HERE, None


def put_missing(
    broker: Broker,
    topic: TopicProduceData,
    index: int,
    error: ErrorCode | None,
    answers: PendingProduceResponse,
    call: Call,
) -> None:
    """Fail a partition that is not on this broker, or whose topic has an error."""
    name = topic.topic_id if call.version >= _IDS_SINCE else topic.name
    code = error or broker.partitions.missing_partition_error(name, index)
    answers.add_result(answers.error_result(index, code))


def put_batch(
    broker: Broker,
    hosted: Partition,
    data: PartitionProduceData,
    answers: PendingProduceResponse,
    now_ms: int,
) -> None:
    """Append a batch now, or queue it for validation on a thread."""
    code = hosted.leadership_error() or answers.batch_error(data)
    if code is not None:
        answers.add_result(answers.error_result(data.index, code))
        return
    records = data.records
    assert records is not None
    try:
        log = hosted.open_log()
    except HeadwaterError as error:
        answers.add_result(answers.error_result(data.index, error.code, str(error)))
        return
    if answers.acks == _ALL and hosted.is_under_min_isr(log.settings.min_insync_replicas):
        answers.add_result(answers.error_result(data.index, ErrorCode.NOT_ENOUGH_REPLICAS))
    elif is_transactional(records):
        _put_transactional(broker, hosted, log, data.index, records, answers)
    elif hosted.pending_appends or log.needs_preparation(records):
        _put_in_turn(broker, hosted, log, data.index, records, answers, answers.reserve_result())
    else:
        try:
            answer = _append(hosted, log, data.index, records, answers, now_ms, may_defer=True)
        except ValidationDeferred:
            _put_in_turn(
                broker, hosted, log, data.index, records, answers, answers.reserve_result()
            )
        else:
            answers.add_result(answer)


def _put_transactional(
    broker: Broker,
    hosted: Partition,
    log: UnifiedLog,
    index: int,
    records: memoryview,
    answers: PendingProduceResponse,
) -> None:
    """Append a transactional batch once its transaction is verified (TX-13)."""
    place = answers.reserve_result()

    def append(batch: TransactionalBatch, records: Records) -> None:
        if hosted.pending_appends or log.needs_preparation(records):
            _put_in_turn(broker, hosted, log, index, records, answers, place, batch)
            return
        now_ms = broker.clock.now_ms()
        try:
            ready = _append_ready(hosted, index, records, answers, now_ms, batch, may_defer=True)
        except ValidationDeferred:
            _put_in_turn(broker, hosted, log, index, records, answers, place, batch)
        else:
            answers.set_result(place, ready)

    def fail_batch(code: ErrorCode) -> None:
        answers.set_result(place, answers.error_result(index, code, _UNVERIFIED.get(code)))

    assert answers.transaction is not None, "else the request has failed"
    try:
        answers.transaction.add(hosted, log, records, append=append, fail=fail_batch)
    except BatchError as error:
        answers.set_result(place, _append_error(error, log, index, answers))


def _put_in_turn(
    broker: Broker,
    hosted: Partition,
    log: UnifiedLog,
    index: int,
    records: Records,
    answers: PendingProduceResponse,
    place: Place,
    batch: TransactionalBatch | None = None,
) -> None:
    """Append a batch once it is validated and all earlier batches are appended."""

    def append(ready: Ready) -> None:
        now_ms = broker.clock.now_ms()
        answers.set_result(place, _append_ready(hosted, index, ready, answers, now_ms, batch))

    append_in_order(
        hosted,
        log,
        bytearray(records),
        executor=broker.validation_executor,
        now_ms=broker.clock.now_ms(),
        then=append,
    )


def _append_ready(
    hosted: Partition,
    index: int,
    ready: Ready | memoryview,
    answers: PendingProduceResponse,
    now_ms: int,
    batch: TransactionalBatch | None,
    *,
    may_defer: bool = False,
) -> PartitionProduceResponse:
    """Append a batch that has waited, if its partition is still there and led here."""
    log, error = hosted.log, hosted.leadership_error()
    if log is None:
        return answers.error_result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if error is not None:
        return answers.error_result(index, error)
    if isinstance(ready, HeadwaterError):
        return _append_error(ready, log, index, answers)
    if answers.acks == _ALL and hosted.is_under_min_isr(log.settings.min_insync_replicas):
        return answers.error_result(index, ErrorCode.NOT_ENOUGH_REPLICAS)
    return _append(hosted, log, index, ready, answers, now_ms, batch, may_defer=may_defer)


def _append(
    hosted: Partition,
    log: UnifiedLog,
    index: int,
    batch: memoryview | bytearray | PreparedBatch,
    answers: PendingProduceResponse,
    now_ms: int,
    transactional: TransactionalBatch | None = None,
    *,
    may_defer: bool = False,
) -> PartitionProduceResponse:
    """Append a batch.

    With `may_defer`, raises `ValidationDeferred` if a thread has to validate it.
    """
    epoch = hosted.leader_epoch
    try:
        if transactional is not None:
            transactional.check(hosted, log)
        if isinstance(batch, PreparedBatch):
            appended = log.append_prepared(batch, leader_epoch=epoch, now_ms=now_ms)
            size_bytes = batch.header.size_bytes
        else:
            appended = log.append_as_leader(
                batch, leader_epoch=epoch, now_ms=now_ms, may_defer=may_defer
            )
            size_bytes = len(batch)
    except ValidationDeferred:
        raise
    except HeadwaterError as error:
        return _append_error(error, log, index, answers)
    answer = PartitionProduceResponse(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=log.log_start_offset,
    )
    if not appended.is_duplicate:
        if transactional is not None:
            transactional.written(hosted)
        _count_append(hosted, log, appended, size_bytes)
    # A duplicate may arrive while the flush of the first attempt is still running.
    if log.needs_flush and appended.last_offset >= log.recovery_point:
        answers.await_flush(log, answer)
    if answers.acks == _ALL and log.high_watermark <= appended.last_offset:
        answers.await_replication(hosted, answer, appended.last_offset + 1)
    return answer


def _append_error(
    error: HeadwaterError, log: UnifiedLog, index: int, answers: PendingProduceResponse
) -> PartitionProduceResponse:
    if not isinstance(error, _AGAINST_THE_LOG):
        return answers.error_result(index, error.code, str(error))
    record_indexes = error.record_indexes if isinstance(error, RecordValidationError) else ()
    return answers.error_result(index, error.code, str(error), log.log_start_offset, record_indexes)


def _count_append(
    hosted: Partition, log: UnifiedLog, appended: LogAppendInfo, size_bytes: int
) -> None:
    topic = hosted.topic
    topic.records_in += appended.last_offset - appended.base_offset + 1
    topic.bytes_in += size_bytes
    hosted.on_append(log, size_bytes)
