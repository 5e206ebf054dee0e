"""AssignReplicasToDirs: a broker says which directory has a replica (KIP-858)."""

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
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class DirectoryData:
    id: TopicId = one("uuid", default=NO_TOPIC_ID)
    topics: tuple[TopicData, ...] = many(TopicData, default=())


@protocol_message
class AssignReplicasToDirsRequest:
    api: ClassVar = ApiKey.ASSIGN_REPLICAS_TO_DIRS

    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    directories: tuple[DirectoryData, ...] = many(DirectoryData, default=())


@protocol_message
class PartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class TopicResult:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partitions: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@protocol_message
class DirectoryResult:
    id: TopicId = one("uuid", default=NO_TOPIC_ID)
    topics: tuple[TopicResult, ...] = many(TopicResult, default=())


@protocol_message
class AssignReplicasToDirsResponse:
    api: ClassVar = ApiKey.ASSIGN_REPLICAS_TO_DIRS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    directories: tuple[DirectoryResult, ...] = many(DirectoryResult, default=())
