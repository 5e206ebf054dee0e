"""ListPartitionReassignments: list ongoing reassignments."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ListPartitionReassignmentsTopics:
    name: str = one("string", default="")
    partition_indexes: tuple[int, ...] = many("int32", default=())


@protocol_message
class ListPartitionReassignmentsRequest:
    api: ClassVar = ApiKey.LIST_PARTITION_REASSIGNMENTS

    timeout_ms: int = one("int32", default=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = many(
        ListPartitionReassignmentsTopics, default=None, nullable_since=0
    )


@protocol_message
class OngoingPartitionReassignment:
    partition_index: int = one("int32", default=0)
    replicas: tuple[int, ...] = many("int32", default=())
    adding_replicas: tuple[int, ...] = many("int32", default=())
    removing_replicas: tuple[int, ...] = many("int32", default=())


@protocol_message
class OngoingTopicReassignment:
    name: str = one("string", default="")
    partitions: tuple[OngoingPartitionReassignment, ...] = many(
        OngoingPartitionReassignment, default=()
    )


@protocol_message
class ListPartitionReassignmentsResponse:
    api: ClassVar = ApiKey.LIST_PARTITION_REASSIGNMENTS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    topics: tuple[OngoingTopicReassignment, ...] = many(OngoingTopicReassignment, default=())
