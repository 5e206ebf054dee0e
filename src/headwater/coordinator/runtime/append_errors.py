"""Map append errors to errors of coordinator APIs, as Kafka 4.1 does.

The log's errors are about partitions and replicas, which a client of a coordinator does not expect.
It gets an error that makes it look up the coordinator or retry.
"""

from collections.abc import Mapping
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey

_MEANINGS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_COMMITS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def client_error(api: ApiKey, error: ErrorCode) -> ErrorCode:
    """Return the error for a client of this API."""
    if api in _COMMITS and error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return _MEANINGS.get(error, error)


def ends_leadership(error: ErrorCode) -> bool:
    """Return whether the log takes no more appends at all, not just this one."""
    return _MEANINGS.get(error) is ErrorCode.NOT_COORDINATOR
