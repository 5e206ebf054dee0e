"""Collect the partition results of one Produce request.

Results may come later: a batch may wait for validation, a flush or replicas.

Note: a result may still be replaced. If a flush fails, or the ISR does not replicate a batch in
time, its records stay in the log, but the producer gets an error.
"""

from dataclasses import replace
from typing import ClassVar, Final

from headwater.broker.handlers.data.leader_hints import PRODUCE_SINCE, hint_producer
from headwater.broker.handlers.data.transactional_produce import TransactionalProduce
from headwater.broker.handlers.transactions.transaction_requests import (
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.records.batch_header import CODEC_MASK, FLAGS_POSITION, Codec
from headwater.replication.partition import Partition
from headwater.storage.log.unified_log import UnifiedLog

NO_OFFSET: Final = -1

_ZSTD_SINCE: Final = 7
_PENDING: Final = PartitionProduceResponse()

Place = tuple[list[PartitionProduceResponse], int]


class PendingProduceResponse:
    """The partition results of one request, some of which may come later.

    Optimized for the common case, a single partition with an immediate result.
    """

    __slots__ = (
        "_answers",
        "_broker",
        "_call",
        "_has_error",
        "_is_late",
        "_missing",
        "_replaced",
        "_timeout_ms",
        "_topics",
        "_waits",
        "acks",
        "is_done",
        "transaction",
    )

    # In metrics.
    delayed_operation: ClassVar = "Produce"

    def __init__(self, broker: Broker, request: ProduceRequest, call: Call) -> None:
        self.acks = request.acks
        # A `headwater.replication.purgatory.timer.TimerTask` while it waits for replicas.
        self.is_done = True
        self._broker = broker
        self._timeout_ms = request.timeout_ms
        self._waits: dict[_CommitWait, None] = {}
        # Set if the client is authorized for the request's transactional id.
        self.transaction = _transaction_of(broker, request, call)
        self._call = call
        self._answers: list[PartitionProduceResponse] = []
        self._topics: list[tuple[TopicProduceData, list[PartitionProduceResponse]]] = []
        self._missing = 0
        self._has_error = False
        self._is_late = False
        # Results that changed after they were given, by the `id` of what was given.
        self._replaced: dict[int, PartitionProduceResponse] = {}

    def begin_topic(self, topic: TopicProduceData) -> None:
        """Start the results of a topic."""
        self._answers = []
        self._topics.append((topic, self._answers))

    def add_result(self, answer: PartitionProduceResponse) -> None:
        self._answers.append(answer)

    def reserve_result(self) -> Place:
        """Reserve a result that is filled later."""
        self._missing += 1
        self._answers.append(_PENDING)
        return self._answers, len(self._answers) - 1

    def set_result(self, place: Place, answer: PartitionProduceResponse) -> None:
        answers, index = place
        answers[index] = answer
        self._complete_one()

    def batch_error(self, data: PartitionProduceData) -> ErrorCode | None:
        """Validate a batch as far as the request allows, before the log does."""
        if not -1 <= self.acks <= 1:
            return ErrorCode.INVALID_REQUIRED_ACKS
        records = data.records
        if not records:
            return ErrorCode.INVALID_RECORD
        flags = records[FLAGS_POSITION] if len(records) > FLAGS_POSITION else 0
        if flags & CODEC_MASK == Codec.ZSTD and self._call.version < _ZSTD_SINCE:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    def error_result(
        self,
        index: int,
        code: ErrorCode,
        message: str | None = None,
        log_start_offset: int = NO_OFFSET,
        record_indexes: tuple[int, ...] = (),
    ) -> PartitionProduceResponse:
        self._has_error = True
        self._call.record_error(code)
        return PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=NO_OFFSET,
            log_start_offset=log_start_offset,
            record_errors=tuple(
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
                for number in record_indexes
            ),
            error_message=message,
        )

    def await_flush(self, log: UnifiedLog, answer: PartitionProduceResponse) -> None:
        """Wait for a flush before acknowledging, for topics with flush.messages=1."""
        self._missing += 1

        def flushed(failure: StorageError | None) -> None:
            if failure is not None:
                error_result = self.error_result(answer.index, failure.code, str(failure))
                self._replaced.setdefault(id(answer), error_result)
            self._complete_one()

        log.flush(flushed)

    # Waiting for the other replicas (MIN-2 to MIN-5).

    def await_replication(
        self, hosted: Partition, answer: PartitionProduceResponse, offset: int
    ) -> None:
        """Wait until all in-sync replicas have the batch."""
        wait = _CommitWait(self, hosted, answer)
        if not hosted.add_delayed_produce(wait, offset):
            return
        self._missing += 1
        self._waits[wait] = None
        if self.is_done:
            self._start_timer()

    def _start_timer(self) -> None:
        self.is_done = False
        broker = self._broker
        broker.timer.add(broker.clock.steady_ms() + self._timeout_ms, self)

    def committed(self, wait: "_CommitWait", code: ErrorCode) -> None:
        del self._waits[wait]
        if not self._waits:
            self._end_wait()
        if code:
            self._set_error(wait.answer, code)
        self._complete_one()

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    def expire(self) -> None:
        """Time out: waiting partitions get an error, the others keep their result."""
        self._end_wait()
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.hosted.remove_delayed_produce(wait)
            self._set_error(wait.answer, ErrorCode.REQUEST_TIMED_OUT)
            self._complete_one()

    def _end_wait(self) -> None:
        self.is_done = True
        self._broker.timer.completed()

    def _set_error(self, answer: PartitionProduceResponse, code: ErrorCode) -> None:
        """Set an error but keep the offset, since the records stay in the log."""
        self._has_error = True
        self._call.record_error(code)
        self._replaced[id(answer)] = replace(answer, error_code=code)

    def finish(self) -> ProduceResponse | None:
        """Return the response after the last partition, or None if it comes later."""
        if self._missing:
            self._is_late = True
            return None
        return self._conclude()

    def _complete_one(self) -> None:
        self._missing -= 1
        if self._is_late and not self._missing:
            self._answer_late()

    def _answer_late(self) -> None:
        response = self._conclude()
        if response is not None:
            self._call.answer(response)

    def _conclude(self) -> ProduceResponse | None:
        if self.acks == 0:
            self._finish_silently()
            return None
        response = ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=self._final(answers),
                )
                for topic, answers in self._topics
            )
        )
        if self._has_error and self._call.version >= PRODUCE_SINCE:
            return hint_producer(self._broker, self._call, response)
        return response

    def _finish_silently(self) -> None:
        if self._has_error:
            self._call.close_connection()
        self._call.finish()

    def _final(
        self, answers: list[PartitionProduceResponse]
    ) -> tuple[PartitionProduceResponse, ...]:
        """Return the final results, now that all flushes and waits have ended."""
        replaced = self._replaced
        if not replaced:
            return tuple(answers)
        return tuple([replaced.get(id(each), each) for each in answers])


class _CommitWait:
    """One partition of a request: a `DelayedProduce`."""

    __slots__ = ("_response", "answer", "hosted")

    def __init__(
        self, response: PendingProduceResponse, hosted: Partition, answer: PartitionProduceResponse
    ) -> None:
        self._response = response
        self.hosted = hosted
        self.answer = answer

    def committed(self, code: ErrorCode) -> None:
        self._response.committed(self, code)


def _transaction_of(
    broker: Broker, request: ProduceRequest, call: Call
) -> TransactionalProduce | None:
    transactional_id = request.transactional_id
    if transactional_id is None or not is_authorized_for_transaction(
        broker, call, transactional_id
    ):
        return None
    return TransactionalProduce(broker, transactional_id, call.version)
