"""DeleteRecords: move the start of logs up (DR-1).

Only the log start moves here; whole segments below it go with the next retention pass. A broker
that is alone has nobody to wait for, so the answer is there at once.
"""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_names import INTERNAL_TOPICS
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.security.authorization import Operation
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_UP_TO_HIGH_WATERMARK: Final = -1
_NO_WATERMARK: Final = -1


def handle(broker: Broker, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        # A partition that is named again counts as it is named last.
        offsets = asked.setdefault(topic.name, {})
        offsets.update((each.partition_index, each.offset) for each in topic.partitions)
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=name,
                partitions=tuple(
                    _result(number, _delete(broker, name, number, offset, call))
                    for number, offset in offsets.items()
                ),
            )
            for name, offsets in asked.items()
        )
    )


def refuse(request: DeleteRecordsRequest, refusal: Refusal) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    _result(each.partition_index, refusal.code) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _delete(broker: Broker, name: str, number: int, offset: int, call: Call) -> int | ErrorCode:
    """The log's start from now on, or why it stays."""
    if not broker.may_topic(call, Operation.DELETE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    hosted = broker.find_led(name, number)
    if isinstance(hosted, ErrorCode):
        return hosted
    if name in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    try:
        log = hosted.opened()
        if not log.settings.is_deleted:
            return ErrorCode.POLICY_VIOLATION
        log.delete_records_below(log.high_watermark if offset == _UP_TO_HIGH_WATERMARK else offset)
    except HeadwaterError as error:
        return error.code
    return log.log_start_offset


def _result(number: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    # An error code is a number too, so the order of these questions matters.
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=number, low_watermark=_NO_WATERMARK, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=number, low_watermark=outcome)
