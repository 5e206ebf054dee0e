"""DescribeProducers: active producers of a partition."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TopicRequest:
    name: str = one("string", default="")
    partition_indexes: tuple[int, ...] = many("int32", default=())


@protocol_message
class DescribeProducersRequest:
    api: ClassVar = ApiKey.DESCRIBE_PRODUCERS

    topics: tuple[TopicRequest, ...] = many(TopicRequest, default=())


@protocol_message
class ProducerState:
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int32", default=0)
    last_sequence: int = one("int32", default=-1)
    last_timestamp: int = one("int64", default=-1)
    coordinator_epoch: int = one("int32", default=0)
    current_txn_start_offset: int = one("int64", default=-1)


@protocol_message
class PartitionResponse:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    active_producers: tuple[ProducerState, ...] = many(ProducerState, default=())


@protocol_message
class TopicResponse:
    name: str = one("string", default="")
    partitions: tuple[PartitionResponse, ...] = many(PartitionResponse, default=())


@protocol_message
class DescribeProducersResponse:
    api: ClassVar = ApiKey.DESCRIBE_PRODUCERS

    throttle_time_ms: int = one("int32", default=0)
    topics: tuple[TopicResponse, ...] = many(TopicResponse, default=())
