"""DeleteRecords: advance log start offset of partitions (delete prefix)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DeleteRecordsPartition:
    partition_index: int = one("int32", default=0)
    offset: int = one("int64", default=0)


@protocol_message
class DeleteRecordsTopic:
    name: str = one("string", default="")
    partitions: tuple[DeleteRecordsPartition, ...] = many(DeleteRecordsPartition, default=())


@protocol_message
class DeleteRecordsRequest:
    api: ClassVar = ApiKey.DELETE_RECORDS

    topics: tuple[DeleteRecordsTopic, ...] = many(DeleteRecordsTopic, default=())
    timeout_ms: int = one("int32", default=0)


@protocol_message
class DeleteRecordsPartitionResult:
    partition_index: int = one("int32", default=0)
    low_watermark: int = one("int64", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class DeleteRecordsTopicResult:
    name: str = one("string", default="")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = many(
        DeleteRecordsPartitionResult, default=()
    )


@protocol_message
class DeleteRecordsResponse:
    api: ClassVar = ApiKey.DELETE_RECORDS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = many(DeleteRecordsTopicResult, default=())
