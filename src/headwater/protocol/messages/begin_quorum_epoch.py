"""BeginQuorumEpoch: the quorum's elected leader announces itself to voters."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=1, ignorable=True)
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)


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
class BeginQuorumEpochRequest:
    api: ClassVar = ApiKey.BEGIN_QUORUM_EPOCH

    cluster_id: str | None = one("string", default=None, nullable_since=0)
    voter_id: int = one("int32", default=-1, since=1, ignorable=True)
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
class BeginQuorumEpochResponse:
    api: ClassVar = ApiKey.BEGIN_QUORUM_EPOCH

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=1, tag=0)
