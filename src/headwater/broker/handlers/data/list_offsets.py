"""ListOffsets: earliest, latest and timestamp lookups (LO-1 to LO-4)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from headwater.replication.partition import Partition
from headwater.security.authorization.authorizer import Operation
from headwater.storage.log.unified_log import UnifiedLog

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

# The first version that supports each special timestamp.
_SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_READ_COMMITTED: Final = 1
_EPOCHS_SINCE: Final = 4
_NOT_AVAILABLE_SINCE: Final = 5


def handle(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(_look_up_all(broker, topic, counts, request, call)),
            )
            for topic in request.topics
        )
    )


def error_response(request: ListOffsetsRequest, error: ApiError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _error_result(each.partition_index, error.code) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _look_up_all(
    broker: Broker,
    topic: ListOffsetsTopic,
    counts: Mapping[tuple[str, int], int],
    request: ListOffsetsRequest,
    call: Call,
) -> Iterator[ListOffsetsPartitionResponse]:
    is_authorized = broker.is_authorized_for_topic(call, Operation.DESCRIBE, topic.name)
    for number, partition in {each.partition_index: each for each in topic.partitions}.items():
        if not is_authorized:
            yield _error_result(number, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif counts[topic.name, number] > 1:
            yield _error_result(number, ErrorCode.INVALID_REQUEST)
        else:
            yield _look_up(broker, topic, partition, request, call)


def _look_up(
    broker: Broker,
    topic: ListOffsetsTopic,
    partition: ListOffsetsPartition,
    request: ListOffsetsRequest,
    call: Call,
) -> ListOffsetsPartitionResponse:
    number = partition.partition_index
    if partition.timestamp < 0 and call.version < _SINCE.get(partition.timestamp, call.version + 1):
        return _error_result(number, ErrorCode.UNSUPPORTED_VERSION)
    hosted = broker.find_led(topic.name, number, partition.current_leader_epoch)
    if isinstance(hosted, ErrorCode):
        return _error_result(number, hosted)
    try:
        log = hosted.open_log()
        end_offset = _end_for(request, log)
        found = _found(hosted, log, partition, end_offset)
    except HeadwaterError as error:
        return _error_result(number, error.code)
    if found.offset in (-1, end_offset) and _is_high_watermark_behind(hosted, request, partition):
        # HW-8. OFFSET_NOT_AVAILABLE exists since version 5.
        is_known = call.version >= _NOT_AVAILABLE_SINCE
        return _error_result(
            number,
            ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE,
        )
    return found if call.version >= _EPOCHS_SINCE else replace(found, leader_epoch=-1)


def _end_for(request: ListOffsetsRequest, log: UnifiedLog) -> int:
    """Return the end offset that the client may read (LO-1); replicas read everything."""
    if request.replica_id >= 0:
        return log.end_offset
    if request.isolation_level == _READ_COMMITTED:
        return log.last_stable_offset
    return log.high_watermark


def _is_high_watermark_behind(
    hosted: Partition, request: ListOffsetsRequest, partition: ListOffsetsPartition
) -> bool:
    """Whether a new leader's high watermark may be behind, so offsets could go back."""
    return (
        request.replica_id < 0
        and hosted.is_new_leader
        and partition.timestamp not in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED)
    )


def _found(
    hosted: Partition, log: UnifiedLog, partition: ListOffsetsPartition, end_offset: int
) -> ListOffsetsPartitionResponse:
    match partition.timestamp:
        case -1:
            return _answer(partition, offset=end_offset, leader_epoch=hosted.leader_epoch)
        case -2 | -4:
            start = log.log_start_offset
            return _answer(partition, offset=start, leader_epoch=log.epochs.epoch_for_offset(start))
        case -5:
            return _answer(partition, offset=-1, leader_epoch=-1)
        case -3:
            timed = log.with_largest_timestamp()
        case timestamp:
            timed = log.first_since(timestamp)
    if timed is None or timed.offset >= end_offset:
        return _answer(partition, offset=-1, leader_epoch=-1)
    return _answer(
        partition, offset=timed.offset, timestamp=timed.timestamp, leader_epoch=timed.leader_epoch
    )


def _answer(
    partition: ListOffsetsPartition, *, offset: int, leader_epoch: int, timestamp: int = -1
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=partition.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _error_result(number: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=number, error_code=code)
