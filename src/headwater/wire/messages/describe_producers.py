"""DescribeProducers: active producers of a partition."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class TopicRequest:
    name: str = one("string", default="")
    partition_indexes: tuple[int, ...] = many("int32", default=())


@shape
class DescribeProducersRequest:
    api: ClassVar = ApiKey.DESCRIBE_PRODUCERS

    topics: tuple[TopicRequest, ...] = many(TopicRequest, default=())


@shape
class ProducerState:
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int32", default=0)
    last_sequence: int = one("int32", default=-1)
    last_timestamp: int = one("int64", default=-1)
    coordinator_epoch: int = one("int32", default=0)
    current_txn_start_offset: int = one("int64", default=-1)


@shape
class PartitionResponse:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    active_producers: tuple[ProducerState, ...] = many(ProducerState, default=())


@shape
class TopicResponse:
    name: str = one("string", default="")
    partitions: tuple[PartitionResponse, ...] = many(PartitionResponse, default=())


@shape
class DescribeProducersResponse:
    api: ClassVar = ApiKey.DESCRIBE_PRODUCERS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[TopicResponse, ...] = many(TopicResponse, default=())
