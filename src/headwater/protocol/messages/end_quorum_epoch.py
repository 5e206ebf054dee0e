"""EndQuorumEpoch: the quorum's leader resigns and names preferred successors."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ReplicaInfo:
    candidate_id: int = one("int32", default=0)
    candidate_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    preferred_successors: tuple[int, ...] = many("int32", default=(), until=0, ignorable=True)
    preferred_candidates: tuple[ReplicaInfo, ...] = many(
        ReplicaInfo, default=(), since=1, ignorable=True
    )


@protocol_message
class TopicData:
    topic_name: str = one("string", default="")
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class LeaderEndpoint:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class EndQuorumEpochRequest:
    api: ClassVar = ApiKey.END_QUORUM_EPOCH

    cluster_id: str | None = one("string", default=None, nullable_since=0)
    topics: tuple[TopicData, ...] = many(TopicData, default=())
    leader_endpoints: tuple[LeaderEndpoint, ...] = many(
        LeaderEndpoint, default=(), since=1, ignorable=True
    )


@protocol_message
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)


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
class EndQuorumEpochResponse:
    api: ClassVar = ApiKey.END_QUORUM_EPOCH

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=1, tag=0)
