"""Produce.

Append record batches to partitions; acks 0/1/-1. No response frame at all when acks=0.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class PartitionProduceData:
    index: int = one("int32", default=0)
    records: memoryview | None = one("records", default=None, nullable_since=0)


@protocol_message
class TopicProduceData:
    name: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = many(PartitionProduceData, default=())


@protocol_message
class ProduceRequest:
    api: ClassVar = ApiKey.PRODUCE

    transactional_id: str | None = one("string", default=None, nullable_since=0)
    acks: int = one("int16", default=0)
    timeout_ms: int = one("int32", default=0)
    topic_data: tuple[TopicProduceData, ...] = many(TopicProduceData, default=())


@protocol_message
class BatchIndexAndErrorMessage:
    batch_index: int = one("int32", default=0)
    batch_index_error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class LeaderIdAndEpoch:
    leader_id: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=-1)


@protocol_message
class PartitionProduceResponse:
    index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    base_offset: int = one("int64", default=0)
    log_append_time_ms: int = one("int64", default=-1)
    log_start_offset: int = one("int64", default=-1, since=5, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = many(
        BatchIndexAndErrorMessage, default=(), since=8, ignorable=True
    )
    error_message: str | None = one(
        "string", default=None, since=8, nullable_since=8, ignorable=True
    )
    current_leader: LeaderIdAndEpoch = one(
        LeaderIdAndEpoch, default=LeaderIdAndEpoch(), since=10, tag=0
    )


@protocol_message
class TopicProduceResponse:
    name: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = many(
        PartitionProduceResponse, default=()
    )


@protocol_message
class NodeEndpoint:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    rack: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class ProduceResponse:
    api: ClassVar = ApiKey.PRODUCE

    responses: tuple[TopicProduceResponse, ...] = many(TopicProduceResponse, default=())
    throttle_time_ms: int = one("int32", default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=10, tag=0)
