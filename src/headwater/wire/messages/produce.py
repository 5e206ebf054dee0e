"""Produce.

Append record batches to partitions; acks 0/1/-1. No response frame at all when acks=0.
"""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_TOPIC_ID, TopicId
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class PartitionProduceData:
    index: int = one("int32", default=0)
    records: memoryview | None = one("records", default=None, nullable_since=0)


@shape
class TopicProduceData:
    name: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = many(PartitionProduceData, default=())


@shape
class ProduceRequest:
    api: ClassVar = ApiKey.PRODUCE

    transactional_id: str | None = one("string", default=None, nullable_since=0)
    acks: int = one("int16", default=0)
    timeout_ms: int = one("int32", default=0)
    topic_data: tuple[TopicProduceData, ...] = many(TopicProduceData, default=())


@shape
class BatchIndexAndErrorMessage:
    batch_index: int = one("int32", default=0)
    batch_index_error_message: str | None = one("string", default=None, nullable_since=0)


@shape
class LeaderIdAndEpoch:
    leader_id: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=-1)


@shape
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


@shape
class TopicProduceResponse:
    name: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = many(
        PartitionProduceResponse, default=()
    )


@shape
class NodeEndpoint:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    rack: str | None = one("string", default=None, nullable_since=0)


@shape
class ProduceResponse:
    api: ClassVar = ApiKey.PRODUCE

    responses: tuple[TopicProduceResponse, ...] = many(TopicProduceResponse, default=())
    throttle_time_ms: int = one("int32", default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=10, tag=0)
