"""DescribeLogDirs: partitions of each log directory, and their sizes.

A log that has not been used since startup is opened for this, since only then is its size known.
"""

from collections.abc import Callable
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError, UnreadableLog
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation
from headwater.storage.log_manager.log_directory import LogDirectory

# The log end offset is always current, so there is no lag.
_NO_LAG: Final = 0
_UNREADABLE_BYTES: Final = 0


def handle(broker: Broker, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    is_asked = _asked(request)
    return DescribeLogDirsResponse(
        results=tuple(
            _describe(broker, directory, is_asked) for directory in broker.directories.directories
        )
    )


def error_response(_: DescribeLogDirsRequest, error: ApiError) -> DescribeLogDirsResponse:
    """Versions 1 and 2 have error codes only in directories, and there are none here."""
    return DescribeLogDirsResponse(error_code=error.code)


def _asked(request: DescribeLogDirsRequest) -> Callable[[TopicPartition], bool]:
    """Return a filter: null requests all partitions, an empty list none."""
    if request.topics is None:
        return lambda _: True
    names = {
        TopicPartition(topic.topic, number)
        for topic in request.topics
        for number in topic.partitions
    }
    return names.__contains__


def _describe(
    broker: Broker, directory: LogDirectory, is_asked: Callable[[TopicPartition], bool]
) -> DescribeLogDirsResult:
    path = str(directory.path)
    try:
        directory.check_serving()
        volume = directory.volume()
        sizes = {
            name: _size_bytes(broker, name) for name in filter(is_asked, directory.partitions())
        }
    except StorageError as error:
        return DescribeLogDirsResult(error_code=error.code, log_dir=path)
    found = {
        name: DescribeLogDirsPartition(
            partition_index=name.partition, partition_size=sizes[name], offset_lag=_NO_LAG
        )
        for name in sizes
    }
    # A move's target directory does not have the partition yet, so there are no duplicates.
    for move in broker.directories.moves.into(directory):
        if is_asked(move.partition):
            found[move.partition] = DescribeLogDirsPartition(
                partition_index=move.partition.partition,
                partition_size=move.copy.size_bytes,
                offset_lag=move.offset_lag,
                is_future_key=True,
            )
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for name in sorted(found):
        topics.setdefault(name.topic, []).append(found[name])
    return DescribeLogDirsResult(
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
        total_bytes=volume.total_bytes,
        usable_bytes=volume.usable_bytes,
    )


def _size_bytes(broker: Broker, name: TopicPartition) -> int:
    try:
        log = broker.directories.log(name, now_ms=broker.clock.now_ms())
    except UnreadableLog:
        return _UNREADABLE_BYTES
    assert log is not None, f"{name} is missing from its log directory"
    return log.size_bytes
