"""AlterPartitionReassignments: start or cancel partition reassignments (KIP-455)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ReassignablePartition:
    partition_index: int = one("int32", default=0)
    replicas: tuple[int, ...] | None = many("int32", default=None, nullable_since=0)


@protocol_message
class ReassignableTopic:
    name: str = one("string", default="")
    partitions: tuple[ReassignablePartition, ...] = many(ReassignablePartition, default=())


@protocol_message
class AlterPartitionReassignmentsRequest:
    api: ClassVar = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    timeout_ms: int = one("int32", default=60000)
    allow_replication_factor_change: bool = one("bool", default=True, since=1)
    topics: tuple[ReassignableTopic, ...] = many(ReassignableTopic, default=())


@protocol_message
class ReassignablePartitionResponse:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class ReassignableTopicResponse:
    name: str = one("string", default="")
    partitions: tuple[ReassignablePartitionResponse, ...] = many(
        ReassignablePartitionResponse, default=()
    )


@protocol_message
class AlterPartitionReassignmentsResponse:
    api: ClassVar = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    throttle_time_ms: int = one("int32", default=0)
    allow_replication_factor_change: bool = one("bool", default=True, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    responses: tuple[ReassignableTopicResponse, ...] = many(ReassignableTopicResponse, default=())
