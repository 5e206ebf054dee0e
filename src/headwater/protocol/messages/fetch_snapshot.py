"""FetchSnapshot: read a range of bytes of a metadata snapshot (KIP-630)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.send_parts import Part


@protocol_message
class SnapshotId:
    end_offset: int = one("int64", default=0)
    epoch: int = one("int32", default=0)


@protocol_message
class PartitionSnapshot:
    partition: int = one("int32", default=0)
    current_leader_epoch: int = one("int32", default=0)
    snapshot_id: SnapshotId = one(SnapshotId, default=SnapshotId())
    position: int = one("int64", default=0)
    replica_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID, since=1, tag=0, ignorable=True)


@protocol_message
class TopicSnapshot:
    name: str = one("string", default="")
    partitions: tuple[PartitionSnapshot, ...] = many(PartitionSnapshot, default=())


@protocol_message
class FetchSnapshotRequest:
    api: ClassVar = ApiKey.FETCH_SNAPSHOT

    cluster_id: str | None = one("string", default=None, nullable_since=0, tag=0)
    replica_id: int = one("int32", default=-1)
    max_bytes: int = one("int32", default=2147483647)
    topics: tuple[TopicSnapshot, ...] = many(TopicSnapshot, default=())


@protocol_message
class LeaderIdAndEpoch:
    leader_id: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)


@protocol_message
class PartitionSnapshotResult:
    index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    snapshot_id: SnapshotId = one(SnapshotId, default=SnapshotId())
    current_leader: LeaderIdAndEpoch = one(LeaderIdAndEpoch, default=LeaderIdAndEpoch(), tag=0)
    size: int = one("int64", default=0)
    position: int = one("int64", default=0)
    unaligned_records: Part | None = one("records", default=b"")


@protocol_message
class TopicSnapshotResult:
    name: str = one("string", default="")
    partitions: tuple[PartitionSnapshotResult, ...] = many(PartitionSnapshotResult, default=())


@protocol_message
class NodeEndpoint:
    node_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class FetchSnapshotResponse:
    api: ClassVar = ApiKey.FETCH_SNAPSHOT

    throttle_time_ms: int = one("int32", default=0, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    topics: tuple[TopicSnapshotResult, ...] = many(TopicSnapshotResult, default=())
    node_endpoints: tuple[NodeEndpoint, ...] = many(NodeEndpoint, default=(), since=1, tag=0)
