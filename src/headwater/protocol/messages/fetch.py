"""Fetch.

Read record batches; same API serves consumers, follower replicas and raft voters/observers.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.send_parts import Part


@protocol_message
class ReplicaState:
    replica_id: int = one("int32", default=-1)
    replica_epoch: int = one("int64", default=-1)


@protocol_message
class FetchPartition:
    partition: int = one("int32", default=0)
    current_leader_epoch: int = one("int32", default=-1, since=9, ignorable=True)
    fetch_offset: int = one("int64", default=0)
    last_fetched_epoch: int = one("int32", default=-1, since=12)
    log_start_offset: int = one("int64", default=-1, since=5, ignorable=True)
    partition_max_bytes: int = one("int32", default=0)
    replica_directory_id: TopicId = one(
        "uuid", default=NO_TOPIC_ID, since=17, tag=0, ignorable=True
    )
    high_watermark: int = one("int64", default=9223372036854775807, since=18, tag=1, ignorable=True)


@protocol_message
class FetchTopic:
    topic: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partitions: tuple[FetchPartition, ...] = many(FetchPartition, default=())


@protocol_message
class ForgottenTopic:
    topic: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class FetchRequest:
    api: ClassVar = ApiKey.FETCH

    cluster_id: str | None = one(
        "string", default=None, since=12, nullable_since=12, tag=0, ignorable=True
    )
    replica_id: int = one("int32", default=-1, until=14)
    replica_state: ReplicaState = one(ReplicaState, default=ReplicaState(), since=15, tag=1)
    max_wait_ms: int = one("int32", default=0)
    min_bytes: int = one("int32", default=0)
    max_bytes: int = one("int32", default=2147483647)
    isolation_level: int = one("int8", default=0)
    session_id: int = one("int32", default=0, since=7, ignorable=True)
    session_epoch: int = one("int32", default=-1, since=7, ignorable=True)
    topics: tuple[FetchTopic, ...] = many(FetchTopic, default=())
    forgotten_topics_data: tuple[ForgottenTopic, ...] = many(ForgottenTopic, default=(), since=7)
    rack_id: str = one("string", default="", since=11, ignorable=True)


@protocol_message
class EpochEndOffset:
    epoch: int = one("int32", default=-1)
    end_offset: int = one("int64", default=-1)


@protocol_message
class LeaderIdAndEpoch:
    leader_id: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=-1)


@protocol_message
class SnapshotId:
    end_offset: int = one("int64", default=-1)
    epoch: int = one("int32", default=-1)


@protocol_message
class AbortedTransaction:
    producer_id: int = one("int64", default=0)
    first_offset: int = one("int64", default=0)


@protocol_message
class PartitionData:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    high_watermark: int = one("int64", default=0)
    last_stable_offset: int = one("int64", default=-1)
    log_start_offset: int = one("int64", default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset = one(EpochEndOffset, default=EpochEndOffset(), since=12, tag=0)
    current_leader: LeaderIdAndEpoch = one(
        LeaderIdAndEpoch, default=LeaderIdAndEpoch(), since=12, tag=1
    )
    snapshot_id: SnapshotId = one(SnapshotId, default=SnapshotId(), since=12, tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = many(
        AbortedTransaction, default=(), nullable_since=0
    )
    preferred_read_replica: int = one("int32", default=-1, since=11)
    records: Part | None = one("records", default=None, nullable_since=0)


@protocol_message
class FetchableTopicResponse:
    topic: str = one("string", default="", until=12, ignorable=True)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=13, ignorable=True)
    partitions: tuple[PartitionData, ...] = many(PartitionData, default=())


@protocol_message
class NodeEndpoint:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    rack: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class FetchResponse:
    api: ClassVar = ApiKey.FETCH

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE, since=7, ignorable=True)
    session_id: int = one("int32", default=0, since=7)
    responses: tuple[FetchableTopicResponse, ...] = many(FetchableTopicResponse, default=())
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=16, tag=0)
