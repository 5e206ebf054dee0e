"""FetchSnapshot: replicas that are behind the start of the leader's log (KIP-630)."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    PartitionSnapshot,
    PartitionSnapshotResult,
    SnapshotId,
)
from headwater.raft.common_response import leader_endpoints_of, maybe_handle_common_response
from headwater.raft.epoch_states import FollowerState
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import PARTITION, TOPIC_NAME
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_events import FlushLog
from headwater.raft.raft_messages import (
    fetch_snapshot_request,
    fetch_snapshot_response,
    leader_id_or_sentinel,
)
from headwater.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from headwater.raft.voter_set import Node, ReplicaKey


class SnapshotHandler:
    """Snapshots that travel between replicas."""

    __slots__ = ("_core",)

    def __init__(self, core: RaftCore) -> None:
        self._core = core

    def handle_fetch_snapshot_request(
        self, call_id: int, request: FetchSnapshotRequest, now_ms: int
    ) -> None:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            core.respond(call_id, FetchSnapshotResponse(error_code=error))
            return
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            core.respond(call_id, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        asked = request.topics[0].partitions[0]
        if request.topics[0].name != TOPIC_NAME or asked.partition != PARTITION:
            self._respond_error(call_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        error = core.validate_leader_only_request(asked.current_leader_epoch)
        if error is not ErrorCode.NONE:
            self._respond_error(call_id, error)
            return
        state = core.quorum.state
        assert isinstance(state, LeaderState)
        replica = ReplicaKey(request.replica_id, asked.replica_directory_id)
        state.note_fetch(replica, now_ms, core.config.check_quorum_timeout_ms)
        self._respond_slice(call_id, asked, request.max_bytes)

    def _respond_slice(self, call_id: int, asked: PartitionSnapshot, max_bytes: int) -> None:
        core = self._core
        snapshot_id = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        part = None
        if snapshot_id != BOOTSTRAP_SNAPSHOT_ID and asked.position >= 0:
            part = core.log.read_snapshot(snapshot_id, asked.position, max_bytes)
        if part is None:
            self._respond_error(call_id, ErrorCode.SNAPSHOT_NOT_FOUND)
            return
        if asked.position >= part.size:
            self._respond_error(call_id, ErrorCode.POSITION_OUT_OF_RANGE)
            return
        result = PartitionSnapshotResult(
            index=PARTITION,
            snapshot_id=asked.snapshot_id,
            current_leader=self._current_leader(),
            size=part.size,
            position=asked.position,
            unaligned_records=part.data,
        )
        core.respond(call_id, fetch_snapshot_response(result, node=core.leader_node()))

    def _respond_error(self, call_id: int, error: ErrorCode) -> None:
        result = PartitionSnapshotResult(
            index=PARTITION,
            error_code=error,
            snapshot_id=SnapshotId(end_offset=-1, epoch=-1),
            current_leader=self._current_leader(),
        )
        node = self._core.leader_node()
        self._core.respond(call_id, fetch_snapshot_response(result, node=node))

    def _current_leader(self) -> LeaderIdAndEpoch:
        leader = self._core.quorum.leader_and_epoch
        return LeaderIdAndEpoch(
            leader_id=leader_id_or_sentinel(leader.leader_id), leader_epoch=leader.epoch
        )

    def send_fetch_snapshot(self, state: FollowerState, node: Node, now_ms: int) -> bool:
        core = self._core
        writer = state.fetching_snapshot
        assert writer is not None
        return core.send(
            node,
            fetch_snapshot_request(
                cluster_id=core.identity.cluster_id,
                replica=core.identity.key,
                epoch=core.quorum.epoch,
                snapshot_id=writer.snapshot_id,
                position=writer.size_bytes,
            ),
            now_ms,
        )

    def handle_fetch_snapshot_response(self, response: FetchSnapshotResponse, now_ms: int) -> bool:
        core = self._core
        if response.error_code is not ErrorCode.NONE or not response.topics:
            return False
        result = response.topics[0].partitions[0]
        leader = result.current_leader
        handled = maybe_handle_common_response(
            core,
            result.error_code,
            leader.leader_id,
            leader.leader_epoch,
            leader_endpoints_of(core, leader.leader_id, response.node_endpoints),
            now_ms,
        )
        if handled is not None:
            return handled
        state = core.quorum.state
        if not isinstance(state, FollowerState) or state.fetching_snapshot is None:
            return True
        state.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms
        state.has_fetched_from_leader = True
        writer = state.fetching_snapshot
        if result.error_code is not ErrorCode.NONE or result.position != writer.size_bytes:
            # The leader has deleted the snapshot, or the download is out of step: start over.
            state.fetching_snapshot = None
            return True
        assert isinstance(result.unaligned_records, bytes | bytearray | memoryview)
        writer.append(result.unaligned_records)
        if writer.size_bytes >= result.size:
            state.fetching_snapshot = None
            writer.freeze()
            self._replace_log(writer.snapshot_id)
        return True

    def _replace_log(self, snapshot_id: OffsetAndEpoch) -> None:
        core = self._core
        if not core.log.truncate_to_latest_snapshot():
            return
        core.emit(FlushLog(core.log.end_offset))
        core.partition_state.update_state()
        core.advance_high_watermark(snapshot_id.offset)
