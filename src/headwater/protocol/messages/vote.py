"""Vote: a (prospective) candidate requests a vote (KIP-595, KIP-996)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)
    replica_epoch: int = one("int32", default=0)
    replica_id: int = one("int32", default=0)
    replica_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=1, ignorable=True)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=1, ignorable=True)
    last_offset_epoch: int = one("int32", default=0)
    last_offset: int = one("int64", default=0)
    pre_vote: bool = one("bool", default=False, since=2)


@protocol_message
class TopicData:
    topic_name: str = one("string", default="")
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class VoteRequest:
    api: ClassVar = ApiKey.VOTE

    cluster_id: str | None = one("string", default=None, nullable_since=0)
    voter_id: int = one("int32", default=-1, since=1, ignorable=True)
    topics: tuple[TopicData, ...] = many(TopicData, default=())


@protocol_message
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    vote_granted: bool = one("bool", default=False)


@protocol_message
class TopicResult:
    topic_name: str = one("string", default="")
    partitions: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@protocol_message
class NodeEndpoint:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class VoteResponse:
    api: ClassVar = ApiKey.VOTE

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=1, tag=0)
