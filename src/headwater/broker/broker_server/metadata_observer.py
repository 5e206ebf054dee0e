"""A broker's replica of the metadata log: it observes, and never votes or leads.

Records that are committed go to the loader, and its image to the publisher. A snapshot replaces the
image; the publisher finds out what has changed.
"""

import logging
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from headwater.broker.controller_server.controller_server import quorum_config, static_voters
from headwater.broker.controller_server.image_listener import MetadataImageListener
from headwater.broker.controller_server.raft_manager import RaftManager, RaftManagerTools
from headwater.broker.metrics.quorum_metrics import ReplicaSources
from headwater.common.exceptions import StorageError
from headwater.common.ids import NodeId, TopicId
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage
from headwater.metadata_store.raft.kafka_raft_log import DIRECTORY_NAME, MetadataLogConfig
from headwater.metadata_store.raft.metadata_loader import MetadataLoader
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Node, ReplicaKey

_log = logging.getLogger(__name__)

# A negative id marks a node that is known by its address only.
_FIRST_BOOTSTRAP_ID: Final = -2


class MetadataObserver:
    """Implements `headwater.metadata_store.raft.raft_driver.RaftListener`."""

    def __init__(
        self,
        node_id: NodeId,
        directory: PurePath,
        *,
        directory_id: TopicId,
        cluster_id: str,
        quorum: QuorumSettings,
        tools: RaftManagerTools,
        listener: MetadataImageListener,
        broken: Callable[[str], None],
    ) -> None:
        """Open the log in `directory`; `broken` is called if the replica cannot continue."""
        self._quorum = quorum
        self._listener = listener
        self._broken = broken
        self._listener_name = quorum.controller_listener_names[0].upper()
        self._raft = RaftManager(
            RaftIdentity(
                key=ReplicaKey(node_id, directory_id),
                cluster_id=cluster_id,
                listener_name=self._listener_name,
                endpoints=(),
                followers_always_flush=False,
                static_voters=static_voters(quorum, self._listener_name),
                bootstrap_servers=tuple(
                    Node(_FIRST_BOOTSTRAP_ID - index, each.host, each.port)
                    for index, each in enumerate(quorum.bootstrap_servers)
                ),
            ),
            directory / DIRECTORY_NAME,
            config=quorum_config(quorum),
            log_config=MetadataLogConfig(
                segment_bytes=quorum.metadata_log_segment_bytes,
                segment_ms=quorum.metadata_log_segment_ms,
            ),
            tools=tools,
            listener=self,
            failed=self._disk_failed,
            broken=self._replica_broken,
        )
        self._loader = MetadataLoader(
            cluster_id, self._raft.client, self._raft.log, on_commit=listener.committed
        )

    @property
    def image(self) -> ClusterImage:
        return self._loader.image

    @property
    def applied_offset(self) -> int:
        """The last offset that the image has."""
        return self._loader.end.offset - 1

    @property
    def has_caught_up(self) -> bool:
        return self._loader.has_records and self._raft.client.has_fetched_from_leader

    @property
    def kraft_version(self) -> int:
        return self._raft.client.kraft_version

    @property
    def metric_sources(self) -> ReplicaSources:
        return ReplicaSources(
            client=self._raft.client,
            metrics=self._raft.driver.metrics,
            loader=self._loader,
            now_ms=self._raft.now_ms,
        )

    @property
    def has_inconsistent_cluster_id(self) -> bool:
        return self._raft.client.has_inconsistent_cluster_id

    @property
    def controller_id(self) -> NodeId | None:
        leader_id = self._raft.client.leader_and_epoch.leader_id
        return None if leader_id is None else NodeId(leader_id)

    @property
    def controller_endpoint(self) -> BrokerEndpoint | None:
        """Where the active controller listens; None while it is not known."""
        node = self._raft.client.leader_node
        if node is None:
            return None
        return BrokerEndpoint(listener=self._listener_name, host=node.host, port=node.port)

    def start(self) -> None:
        self._raft.start()

    def sweep(self) -> None:
        self._raft.sweep()

    def close(self) -> None:
        """Stop fetching; the log is closed when no sync is under way: see `close_log`."""
        self._raft.close()

    def close_log(self) -> None:
        self._raft.close_log()

    # `RaftListener`

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        self._loader.commit(start_offset, end_offset)
        self._listener.log_advanced()
        self._maybe_snapshot()

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self._loader.load_snapshot(snapshot_id)
        _log.info("Loaded snapshot: offset=%d epoch=%d", snapshot_id.offset, snapshot_id.epoch)
        self._listener.snapshot_loaded(self._loader.image, self.applied_offset)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        name = "none" if leader.leader_id is None else leader.leader_id
        _log.info("Active controller: node_id=%s epoch=%d", name, leader.epoch)
        self._listener.controller_changed()

    def _maybe_snapshot(self) -> None:
        """Take a snapshot after many bytes of records; then clean the log."""
        limit_bytes = self._quorum.metadata_log_max_record_bytes_between_snapshots
        if self._loader.bytes_since_snapshot < limit_bytes or not self._loader.can_snapshot:
            return
        _log.info("Wrote snapshot: id=%s", self._loader.snapshot())
        retained_bytes = self._quorum.metadata_max_retention_bytes
        if 0 <= retained_bytes < self._raft.log.size_bytes:
            self._raft.client.clean_log()

    def _disk_failed(self, error: StorageError) -> None:
        self._broken(f"the metadata log cannot be written: {error}")

    def _replica_broken(self, error: Exception) -> None:
        _log.critical("The replica of the metadata log has stopped", exc_info=error)
        self._broken(f"the replica of the metadata log has stopped: {error!r}")
