"""DeleteRecords: advance the log start offset (DR-1).

Only the log start offset moves here; the next retention pass deletes whole segments below it. The
response waits until every live replica has advanced its log start offset, which followers do with
their next fetch and report with the one after it.
"""

from typing import ClassVar, Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.settings.setting_types import LONG_MAX
from headwater.metadata.internal_topics import INTERNAL_TOPICS
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headwater.replication.partition import Partition
from headwater.security.authorization.authorizer import Operation

_UP_TO_HIGH_WATERMARK: Final = -1
_NO_WATERMARK: Final = -1


def handle(
    broker: Broker, request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse | None:
    offsets_by_topic: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        # If a partition is repeated, its last offset counts.
        offsets = offsets_by_topic.setdefault(topic.name, {})
        offsets.update((each.partition_index, each.offset) for each in topic.partitions)
    deleting = DelayedDeleteRecords(broker, call)
    for name, offsets in offsets_by_topic.items():
        for number, offset in offsets.items():
            deleting.delete(name, number, offset)
    return deleting.finish(request.timeout_ms)


def error_response(request: DeleteRecordsRequest, error: ApiError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    _result(each.partition_index, error.code) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


class DelayedDeleteRecords:
    """One request: a `TimerTask` while followers have not deleted yet."""

    __slots__ = ("_broker", "_call", "_outcomes", "_waits", "is_done")

    # In metrics.
    delayed_operation: ClassVar = "DeleteRecords"

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self._call = call
        self._outcomes: dict[str, dict[int, Partition | ErrorCode]] = {}
        self._waits: dict[_StartWait, None] = {}
        self.is_done = False

    def delete(self, name: str, number: int, offset: int) -> None:
        outcome = _delete(self._broker, name, number, offset, self._call)
        self._outcomes.setdefault(name, {})[number] = outcome
        if isinstance(outcome, Partition):
            assert outcome.log is not None
            # An offset below the log start offset needs no waiting.
            start = min(offset if offset >= 0 else LONG_MAX, outcome.log.log_start_offset)
            if outcome.low_watermark < start:
                wait = _StartWait(self, name, number)
                self._waits[wait] = None
                outcome.delayed_delete_records.add(wait, start)

    def finish(self, timeout_ms: int) -> DeleteRecordsResponse | None:
        if not self._waits:
            self.is_done = True
            return self._response()
        broker = self._broker
        broker.timer.add(broker.clock.steady_ms() + timeout_ms, self)
        return None

    def reached(self, wait: "_StartWait", code: ErrorCode) -> None:
        del self._waits[wait]
        if code:
            self._outcomes[wait.name][wait.number] = code
        if not self._waits:
            self._answer()

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    def expire(self) -> None:
        for wait in self._waits:
            outcome = self._outcomes[wait.name][wait.number]
            assert isinstance(outcome, Partition)
            outcome.delayed_delete_records.remove(wait)
            self._outcomes[wait.name][wait.number] = ErrorCode.REQUEST_TIMED_OUT
        self._waits.clear()
        self._answer()

    def _answer(self) -> None:
        self.is_done = True
        self._broker.timer.completed()
        self._call.answer(self._response())

    def _response(self) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=name,
                    partitions=tuple(
                        _result(number, _low_watermark_or_error(outcome))
                        for number, outcome in outcomes.items()
                    ),
                )
                for name, outcomes in self._outcomes.items()
            )
        )


class _StartWait:
    """One partition of a request: a `DelayedProduce`."""

    __slots__ = ("_deleting", "name", "number")

    def __init__(self, deleting: DelayedDeleteRecords, name: str, number: int) -> None:
        self._deleting = deleting
        self.name = name
        self.number = number

    def committed(self, code: ErrorCode) -> None:
        self._deleting.reached(self, code)


def _delete(
    broker: Broker, name: str, number: int, offset: int, call: Call
) -> Partition | ErrorCode:
    """Advance the log start offset and return the partition, or an error."""
    if not broker.is_authorized_for_topic(call, Operation.DELETE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    hosted = broker.find_led(name, number)
    if isinstance(hosted, ErrorCode):
        return hosted
    if name in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    try:
        log = hosted.open_log()
        if not log.settings.is_deleted:
            return ErrorCode.POLICY_VIOLATION
        log.delete_records_below(log.high_watermark if offset == _UP_TO_HIGH_WATERMARK else offset)
    except HeadwaterError as error:
        return error.code
    hosted.on_log_start_change()
    return hosted


def _low_watermark_or_error(outcome: Partition | ErrorCode) -> int | ErrorCode:
    if isinstance(outcome, Partition):
        return _NO_WATERMARK if outcome.log is None else outcome.low_watermark
    return outcome


def _result(number: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    # ErrorCode is a subclass of int, so check it first.
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=number, low_watermark=_NO_WATERMARK, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=number, low_watermark=outcome)
