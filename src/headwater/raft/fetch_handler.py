"""Fetch and FetchSnapshot: both sides of replication.

A fetch offset acknowledges everything below it, so a voter syncs its log before it fetches again.
"""

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import BatchError
from headwater.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from headwater.raft.common_response import leader_endpoints_of, maybe_handle_common_response
from headwater.raft.epoch_states import FollowerState
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import FETCH_MAX_BYTES, PARTITION, TOPIC_NAME
from headwater.raft.raft_core import DelayedFetch, RaftCore
from headwater.raft.raft_events import FlushLog
from headwater.raft.raft_messages import (
    METADATA_TOPIC_ID,
    fetch_request,
    fetch_response,
    leader_id_or_sentinel,
)
from headwater.raft.replicated_log import OffsetAndEpoch, validate_offset_and_epoch
from headwater.raft.request_manager import InflightRequest
from headwater.raft.voter_set import Node, ReplicaKey
from headwater.records.batch_header import Buffer, read_header


class FetchHandler:
    """Replication of the records of one replica."""

    __slots__ = ("_core",)

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        core.complete_delayed_fetches = self._complete_delayed

    # The leader's side

    def handle_fetch_request(self, call_id: int, request: FetchRequest, now_ms: int) -> None:
        core = self._core
        if not core.has_valid_cluster_id(request.cluster_id):
            core.respond(call_id, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        asked = _quorum_partition(request)
        if asked is None:
            core.respond(call_id, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or asked.last_fetched_epoch < 0
            or asked.last_fetched_epoch > asked.current_leader_epoch
        ):
            self._respond_error(call_id, ErrorCode.INVALID_REQUEST)
            return
        error = core.validate_leader_only_request(asked.current_leader_epoch)
        if error is not ErrorCode.NONE:
            self._respond_error(call_id, error)
            return
        replica_id = request.replica_state.replica_id
        if replica_id < 0:
            replica_id = request.replica_id
        replica = ReplicaKey(replica_id, asked.replica_directory_id)
        state = core.quorum.state
        assert isinstance(state, LeaderState)
        valid = validate_offset_and_epoch(core.log, asked.fetch_offset, asked.last_fetched_epoch)
        if valid.valid is not None:
            self._acknowledge(state, replica, asked.fetch_offset, now_ms)
        data = self._partition_data(state, asked)
        is_worth_sending = (
            bool(data.records)
            or data.diverging_epoch.epoch >= 0
            or data.snapshot_id.epoch >= 0
            or asked.high_watermark < data.high_watermark
        )
        if is_worth_sending or request.max_wait_ms == 0:
            core.respond(call_id, fetch_response(data, node=core.leader_node()))
            return
        self._answer_earlier(state, replica)
        core.delayed_fetches.append(
            DelayedFetch(
                call_id=call_id,
                replica=replica,
                request=asked,
                deadline_ms=now_ms + request.max_wait_ms,
            )
        )

    def _answer_earlier(self, state: LeaderState, replica: ReplicaKey) -> None:
        """A replica waits with one fetch at a time; it has given up an earlier one."""
        core = self._core
        for each in core.delayed_fetches:
            if each.replica == replica and replica.id >= 0:
                data = self._partition_data(state, each.request)
                core.respond(each.call_id, fetch_response(data, node=core.leader_node()))
                core.delayed_fetches.remove(each)
                return

    def _acknowledge(
        self, state: LeaderState, replica: ReplicaKey, fetch_offset: int, now_ms: int
    ) -> None:
        if replica.id == self._core.identity.key.id:
            # A node with this id but another directory: an observer at best.
            return
        state.note_fetch(replica, now_ms, self._core.config.check_quorum_timeout_ms)
        if state.update_replica_state(replica, fetch_offset, now_ms):
            self._core.on_leader_high_watermark(state)

    def _partition_data(self, state: LeaderState, asked: FetchPartition) -> PartitionData:
        core = self._core
        valid = validate_offset_and_epoch(core.log, asked.fetch_offset, asked.last_fetched_epoch)
        records: Buffer = b""
        diverging = EpochEndOffset()
        snapshot_id = SnapshotId()
        if valid.valid is not None:
            records = core.log.read(asked.fetch_offset, core.log.end_offset, FETCH_MAX_BYTES)
        elif valid.diverging is not None:
            diverging = EpochEndOffset(
                epoch=valid.diverging.epoch, end_offset=valid.diverging.offset
            )
        elif valid.snapshot is not None:
            snapshot_id = SnapshotId(end_offset=valid.snapshot.offset, epoch=valid.snapshot.epoch)
        return PartitionData(
            partition_index=PARTITION,
            high_watermark=-1 if state.high_watermark is None else state.high_watermark,
            log_start_offset=core.log.start_offset,
            diverging_epoch=diverging,
            current_leader=LeaderIdAndEpoch(
                leader_id=core.identity.key.id, leader_epoch=state.epoch
            ),
            snapshot_id=snapshot_id,
            aborted_transactions=None,
            records=records,
        )

    def _respond_error(self, call_id: int, error: ErrorCode) -> None:
        core = self._core
        leader = core.quorum.leader_and_epoch
        data = PartitionData(
            partition_index=PARTITION,
            error_code=error,
            high_watermark=-1,
            current_leader=LeaderIdAndEpoch(
                leader_id=leader_id_or_sentinel(leader.leader_id), leader_epoch=leader.epoch
            ),
            aborted_transactions=None,
            records=b"",
        )
        core.respond(call_id, fetch_response(data, node=core.leader_node()))

    def _complete_delayed(self, state: LeaderState) -> None:
        core = self._core
        remaining: list[DelayedFetch] = []
        for each in core.delayed_fetches:
            high_watermark = -1 if state.high_watermark is None else state.high_watermark
            has_records = core.log.end_offset > each.request.fetch_offset
            if has_records or each.request.high_watermark < high_watermark:
                data = self._partition_data(state, each.request)
                core.respond(each.call_id, fetch_response(data, node=core.leader_node()))
            else:
                remaining.append(each)
        core.delayed_fetches = remaining

    def expire_delayed(self, state: LeaderState, now_ms: int) -> None:
        core = self._core
        remaining: list[DelayedFetch] = []
        for each in core.delayed_fetches:
            if now_ms < each.deadline_ms:
                remaining.append(each)
            else:
                data = self._partition_data(state, each.request)
                core.respond(each.call_id, fetch_response(data, node=core.leader_node()))
        core.delayed_fetches = remaining

    # The follower's side

    def send_fetch(self, node: Node, now_ms: int) -> bool:
        core = self._core
        return core.send(
            node,
            fetch_request(
                cluster_id=core.identity.cluster_id,
                replica=core.identity.key,
                epoch=core.quorum.epoch,
                end=core.end,
                high_watermark=core.high_watermark,
            ),
            now_ms,
        )

    def handle_fetch_response(
        self, inflight: InflightRequest, response: FetchResponse, now_ms: int
    ) -> bool:
        core = self._core
        if response.error_code is not ErrorCode.NONE or not response.responses:
            if response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                core.has_inconsistent_cluster_id = True
            return False
        data = response.responses[0].partitions[0]
        leader = data.current_leader
        handled = maybe_handle_common_response(
            core,
            data.error_code,
            leader.leader_id,
            leader.leader_epoch,
            leader_endpoints_of(core, leader.leader_id, response.node_endpoints),
            now_ms,
        )
        if handled is not None:
            return handled
        state = core.quorum.state
        if data.error_code is not ErrorCode.NONE or not isinstance(state, FollowerState):
            return False
        request = inflight.message
        assert isinstance(request, FetchRequest)
        asked = request.topics[0].partitions[0]
        if (asked.fetch_offset, asked.last_fetched_epoch) != core.end:
            # The log has changed since: another response was faster.
            return True
        if data.diverging_epoch.epoch >= 0:
            end = data.diverging_epoch
            self._truncate(OffsetAndEpoch(end.end_offset, end.epoch))
        elif data.snapshot_id.epoch >= 0:
            snapshot_id = OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch)
            state.fetching_snapshot = core.log.create_new_snapshot(snapshot_id)
        else:
            if data.records:
                assert isinstance(data.records, bytes | bytearray | memoryview)
                try:
                    self._append(data.records, state.epoch)
                except BatchError:
                    # Damaged on its way or by the leader's disk; nothing of it was appended.
                    return False
            if data.high_watermark >= 0:
                core.advance_high_watermark(min(data.high_watermark, core.log.end_offset))
        state.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms
        state.has_fetched_from_leader = True
        return True

    def _append(self, batches: Buffer, epoch: int) -> None:
        core = self._core
        batches = _batches_up_to_epoch(batches, epoch)
        if not batches:
            return
        core.log.append_as_follower(batches)
        if core.identity.followers_always_flush or core.quorum.is_voter:
            core.emit(FlushLog(core.log.end_offset))
        core.partition_state.update_state()

    def _truncate(self, leader_end: OffsetAndEpoch) -> None:
        """Cut the log where it parts from the leader's, never below what is committed."""
        core = self._core
        own_end = core.log.end_offset_for_epoch(leader_end.epoch)
        offset = (
            min(own_end.offset, leader_end.offset)
            if own_end.epoch == leader_end.epoch
            else own_end.offset
        )
        assert offset >= core.high_watermark, (
            f"the leader asks to truncate to {offset}, below the high watermark "
            f"{core.high_watermark}"
        )
        core.log.truncate_to(offset)
        core.partition_state.truncate_new_entries(offset)
        core.emit(FlushLog(offset))


def _quorum_partition(request: FetchRequest) -> FetchPartition | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    partition = topic.partitions[0]
    is_ours = topic.topic_id == METADATA_TOPIC_ID or topic.topic == TOPIC_NAME
    return partition if is_ours and partition.partition == PARTITION else None


def _batches_up_to_epoch(batches: Buffer, epoch: int) -> Buffer:
    """Batches of later epochs than the leader's are not its own (EP-8)."""
    position = 0
    while position < len(batches):
        header = read_header(batches, position)
        if header.leader_epoch > epoch:
            break
        position += header.size_bytes
    return memoryview(batches)[:position]
