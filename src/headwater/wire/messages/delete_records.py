"""DeleteRecords: advance log start offset of partitions (delete prefix)."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class DeleteRecordsPartition:
    partition_index: int = one("int32", default=0)
    offset: int = one("int64", default=0)


@shape
class DeleteRecordsTopic:
    name: str = one("string", default="")
    partitions: tuple[DeleteRecordsPartition, ...] = many(DeleteRecordsPartition, default=())


@shape
class DeleteRecordsRequest:
    api: ClassVar = ApiKey.DELETE_RECORDS

    topics: tuple[DeleteRecordsTopic, ...] = many(DeleteRecordsTopic, default=())
    timeout_ms: int = one("int32", default=0)


@shape
class DeleteRecordsPartitionResult:
    partition_index: int = one("int32", default=0)
    low_watermark: int = one("int64", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@shape
class DeleteRecordsTopicResult:
    name: str = one("string", default="")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = many(
        DeleteRecordsPartitionResult, default=()
    )


@shape
class DeleteRecordsResponse:
    api: ClassVar = ApiKey.DELETE_RECORDS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = many(DeleteRecordsTopicResult, default=())
