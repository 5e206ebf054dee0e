"""DescribeQuorum: voters and observers, as the leader sees them (KIP-836)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)


@protocol_message
class TopicData:
    topic_name: str = one("string", default="")
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class DescribeQuorumRequest:
    api: ClassVar = ApiKey.DESCRIBE_QUORUM

    topics: tuple[TopicData, ...] = many(TopicData, default=())


@protocol_message
class ReplicaState:
    replica_id: int = one("int32", default=0)
    replica_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=2, ignorable=True)
    log_end_offset: int = one("int64", default=0)
    last_fetch_timestamp: int = one("int64", default=-1, since=1, ignorable=True)
    last_caught_up_timestamp: int = one("int64", default=-1, since=1, ignorable=True)


@protocol_message
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one(
        "string", default=None, since=2, nullable_since=2, ignorable=True
    )
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    high_watermark: int = one("int64", default=0)
    current_voters: tuple[ReplicaState, ...] = many(ReplicaState, default=())
    observers: tuple[ReplicaState, ...] = many(ReplicaState, default=())


@protocol_message
class TopicResult:
    topic_name: str = one("string", default="")
    partitions: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@protocol_message
class Listener:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class Node:
    node_id: int = one("int32", default=0)
    listeners: tuple[Listener, ...] = many(Listener, default=())


@protocol_message
class DescribeQuorumResponse:
    api: ClassVar = ApiKey.DESCRIBE_QUORUM

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one(
        "string", default=None, since=2, nullable_since=2, ignorable=True
    )
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
    nodes: tuple[Node, ...] = many(Node, default=(), since=2, ignorable=True)
