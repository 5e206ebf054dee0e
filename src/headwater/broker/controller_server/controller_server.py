"""A node with `process.roles=controller` (Kafka: ControllerServer).

The directory is locked before anything in it is read, and the port is bound before the replica
starts, since its endpoint is part of its identity. The node builds the image of the metadata log.
While it leads the quorum, it is the active controller: see `headwater.controller.quorum`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.broker.authentication.authentication import (
    authenticators,
    controller_login,
    sasl_listeners_of,
)
from headwater.broker.controller_server.controller_apis import ControllerApis
from headwater.broker.controller_server.controller_liveness import (
    BrokerEndpoints,
    ControllerLiveness,
    LeaderEndpoint,
)
from headwater.broker.controller_server.controller_registration_manager import (
    ControllerRegistrationManager,
)
from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.controller_server.image_listener import MetadataImageListener
from headwater.broker.controller_server.raft_manager import RaftManager, RaftManagerTools
from headwater.broker.inter_broker.client import BrokerDirectory
from headwater.broker.inter_broker.connect import PeerConnector
from headwater.broker.inter_broker.liveness import ConnectionLiveness
from headwater.broker.metrics.controller_metrics import (
    ControllerSources,
    QuorumControllerCounters,
    controller_families,
    quorum_controller_families,
)
from headwater.broker.metrics.metrics_listener import metrics_endpoint, metrics_port
from headwater.broker.metrics.process_metrics import process_families
from headwater.broker.metrics.prometheus_exposition import Family
from headwater.broker.metrics.quorum_metrics import (
    ReplicaSources,
    applied_families,
    raft_families,
)
from headwater.broker.metrics.request_metrics import connection_families, request_families
from headwater.broker.metrics.runtime_metrics import GcPauses, runtime_families
from headwater.broker.node.authorization import (
    apply_acl_changes,
    authorizer_of,
    early_authorizer_of,
    load_acls,
)
from headwater.broker.node.listeners import (
    advertised,
    has_listener,
    network_settings,
    own_endpoints,
)
from headwater.broker.node.tls_listeners import TlsListeners
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.exceptions import HeadwaterError, InvalidSetting, StorageError
from headwater.common.ids import TopicId
from headwater.common.latency_histogram import LatencyHistogram
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.controller.quorum.quorum_controller import QuorumController
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_records import MetadataRecord
from headwater.metadata_store.raft.kafka_raft_log import DIRECTORY_NAME, MetadataLogConfig
from headwater.metadata_store.raft.metadata_loader import MetadataLoader, records_in
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from headwater.metadata_store.raft.storage_formatter import BOOTSTRAP_FILE_NAME, random_uuid
from headwater.network import endpoint as listener_endpoint
from headwater.network.event_loop import call_soon_from_threads
from headwater.network.host_name import own_host_name
from headwater.network.http_listener import HttpListener
from headwater.network.peer import PeerSettings
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.network.socket_server import SocketServer
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.network.tls.tls_endpoints import ClientTls
from headwater.protocol.api_key import ApiKey
from headwater.raft.election_state import LeaderAndEpoch
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import Endpoint, Node, ReplicaKey, VoterNode, VoterSet
from headwater.replication.purgatory.timer import Timer
from headwater.security.authorization.acl_bindings import NO_ACLS
from headwater.storage.io.disk import read_whole
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.io.thread_executor import ThreadExecutor
from headwater.storage.log_manager import meta_properties
from headwater.storage.log_manager.directory_lock import DirectoryLock
from headwater.storage.log_manager.meta_properties import MetaProperties

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.1
_TICKS_PER_SWEEP: Final = 10
_DRAIN_MS: Final = 1_000
_NS_PER_S: Final = 1_000_000_000
# A negative id marks a node that is known by its address only.
_FIRST_BOOTSTRAP_ID: Final = -2


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Settings that a controller was started with."""

    static: StaticConfig
    quorum: QuorumSettings


class ControllerServer:
    """A controller on the running event loop. Started once, stopped once."""

    cluster_id: str

    def __init__(self, config: ControllerConfig, *, broken: Callable[[str], None]) -> None:
        """`broken` is called with the reason if the controller cannot continue."""
        settings = config.static.settings
        self._config = config
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._random = SystemRandom()
        self._disk = OsDisk()
        self._listener_name = config.quorum.controller_listener_names[0].upper()
        self._endpoints = _controller_endpoints(settings, config.quorum)
        self._tls = TlsListeners(settings, self._endpoints)
        self._request_timer = Timer()
        self._logins = sasl_listeners_of(
            settings,
            self._endpoints,
            clock=self._clock,
            rng=self._random,
            timer=self._request_timer,
            image=self._image_for_authentication,
        )
        self._login = controller_login(
            settings,
            self._listener_name,
            config.quorum.sasl_mechanism_controller_protocol,
            self._random,
        )
        self._towards_controllers = self._tls.towards_brokers(settings, self._listener_name)
        self._liveness: ControllerLiveness | None = None
        self._authorizer = authorizer_of(settings)
        self._local_image: ClusterImage | None = None
        # The end of this replica's log at its start.
        self._first_end_offset = 0
        self._quota_managers = self._new_quota_managers()
        self._directory = metadata_log_directory(settings, config.quorum)
        self._resources = ExitStack()
        self._ticks = 0
        self._counters = QuorumControllerCounters()
        self._metrics_port: HttpListener | None = None
        # How late ticks are: the time that any callback waits for the loop.
        self._loop_delay = LatencyHistogram()
        metrics_endpoint(settings)
        self._timer: asyncio.TimerHandle | None = None
        self._has_warned = False
        self._leader_changed = asyncio.Event()
        self.leader = LeaderAndEpoch(None, 0)
        self.broker: MetadataImageListener | None = None
        """The broker of a node with both roles, which shares this replica of the log."""

    async def start(self) -> list[listener_endpoint.Endpoint]:
        """Start the controller and return its bound endpoints."""
        try:
            return self._start()
        except BaseException:
            self._resources.close()
            raise

    def _start(self) -> list[listener_endpoint.Endpoint]:
        if not self._directory.is_dir():
            raise StorageError(_not_formatted(self._directory))
        self._resources.enter_context(DirectoryLock(self._directory))
        meta = self._checked_meta_properties()
        assert meta.cluster_id is not None
        self.cluster_id = meta.cluster_id
        executor = ThreadExecutor(1, call_soon_from_threads(self._loop), name="headwater-raft")
        self._executor = executor
        self._resources.callback(executor.close)
        # The service needs the replica, and the replica needs the bound port.
        service = _LateService()
        settings = self._config.static.settings
        self.server = SocketServer(
            self._loop,
            network_settings(settings),
            service,
            now_ms=self._clock.steady_ms(),
            tls=self._tls.by_name,
            authenticators=authenticators(self._logins, service),
        )
        bound = self.server.bind(self._endpoints)
        # If the start fails; otherwise `stop` has done it.
        self._resources.callback(self.server.close_listeners)
        self.raft = RaftManager(
            self._identity(meta, bound),
            self._directory / DIRECTORY_NAME,
            config=quorum_config(self._config.quorum),
            log_config=MetadataLogConfig(
                segment_bytes=self._config.quorum.metadata_log_segment_bytes,
                segment_ms=self._config.quorum.metadata_log_segment_ms,
            ),
            tools=RaftManagerTools(
                loop=self._loop,
                clock=self._clock,
                random=self._random,
                disk=self._disk,
                executor=executor,
                dial=PeerConnector(self._loop, PeerSettings(), self._towards_controllers),
                log_in=self._login,
            ),
            listener=self,
            failed=self._disk_failed,
            broken=self._replica_broken,
        )
        self._first_end_offset = self.raft.log.end_offset
        self.loader = MetadataLoader(
            self.cluster_id, self.raft.client, self.raft.log, on_commit=self._committed
        )
        self.writer = QuorumChangeWriter(
            self._config.static.node_id,
            self.raft.driver,
            self.loader,
            bootstrap=self._bootstrap_records(),
            now_ms=self._clock.now_ms,
        )
        self.services = ControllerServices(
            static=self._config.static,
            clock=self._clock,
            rng=self._random,
            timer=self._request_timer,
            authorizer=early_authorizer_of(settings),
            is_early_start=True,
            loader=self.loader,
            call_soon=self._loop.call_soon,
            receive=self.raft.receive,
        )
        self._registration = ControllerRegistrationManager(
            self.services,
            self.raft.client,
            incarnation_id=random_uuid(self._random),
            endpoints=advertised(settings, bound, own_host_name),
            listener_name=self._listener_name,
            send_request=self.raft.send_apart,
        )
        service.apis = self._apis = ControllerApis(
            self.services,
            self.raft.client,
            cluster_id=self.cluster_id,
            listener_name=self._listener_name,
        )
        self._liveness = self._new_liveness()
        if self._logins:
            self._local_image = self._read_local_image()
        self._open_metrics()
        self.raft.start()
        self.server.start()
        self._tick()
        if self._metrics_port is not None:
            self._metrics_port.start()
            _log.info("Serving metrics at http://%s/metrics", self._metrics_port.endpoint.address)
        return bound

    def _new_liveness(self) -> ControllerLiveness | None:
        settings = self._config.static.settings
        if not settings.headwater_refusing_brokers_fence:
            return None
        listener = settings.inter_broker_listener_name or settings.security_inter_broker_protocol
        towards_brokers = (
            self._tls.towards_brokers(settings, listener)
            if has_listener(settings, listener)
            else None
        )
        brokers = BrokerEndpoints(
            lambda: self.loader.image,
            listener=listener.upper(),
            has_tls=towards_brokers is not None,
        )
        return ControllerLiveness(
            self._config.static.node_id,
            brokers=self._watches(brokers, towards_brokers),
            controllers=self._watches(
                LeaderEndpoint(lambda: self.raft.client.leader_node), self._towards_controllers
            ),
            on_broker_refused=self._broker_refused,
            on_leader_refused=self._leader_refused,
        )

    def _watches(self, directory: BrokerDirectory, tls: ClientTls | None) -> ConnectionLiveness:
        return ConnectionLiveness(
            directory=directory,
            dial=PeerConnector(self._loop, PeerSettings(), tls),
            clock=self._clock,
            call_later=self._later,
        )

    def _broker_refused(self, broker: BrokerRegistration) -> None:
        if self.services.quorum_controller is not None:
            self.services.quorum_controller.broker_refused(broker)

    def _leader_refused(self, leader: LeaderAndEpoch) -> None:
        _log.warning(
            "The leader of the metadata quorum refuses connections: leader=%s epoch=%d",
            leader.leader_id,
            leader.epoch,
        )
        self.raft.driver.leader_refused(leader)

    def _watch_brokers(self) -> None:
        if self._liveness is not None:
            is_active = self.services.is_controller
            self._liveness.watch_brokers(self.loader.image, is_active=is_active)

    def _open_metrics(self) -> None:
        """Bind the metrics port; the broker of the same process has one for both."""
        self._metrics_port = metrics_port(
            self._loop,
            self._config.static.settings,
            self._families,
            now_ms=self._clock.steady_ms(),
        )
        if self._metrics_port is not None:
            self._resources.callback(self._metrics_port.close)
            self._gc_pauses = GcPauses()
            self._resources.callback(self._gc_pauses.close)

    def _families(self) -> list[Family]:
        """All metrics of a node that is only a controller."""
        return [
            *self.controller_families(),
            *raft_families(self.metric_sources),
            *request_families(self._apis.counters),
            *connection_families(self.server),
            *runtime_families(self._gc_pauses, lambda: self._loop_delay),
            *process_families(),
        ]

    def controller_families(self) -> Iterator[Family]:
        """Metrics under the names of Kafka's `KafkaController`."""
        sources = ControllerSources(
            image=lambda: self.loader.image, is_active=lambda: self.services.is_controller
        )
        yield from controller_families(sources)
        yield from quorum_controller_families(sources, self._counters)
        yield from applied_families(self.metric_sources)

    @property
    def metric_sources(self) -> ReplicaSources:
        return ReplicaSources(
            client=self.raft.client,
            metrics=self.raft.driver.metrics,
            loader=self.loader,
            now_ms=self.raft.now_ms,
        )

    async def stop(self) -> None:
        """Hand over leadership, answer pending requests, sync and close the log."""
        _log.info("Stopping")
        await self._resign()
        await self.server.stop(drain_ms=_DRAIN_MS)
        if self._timer is not None:
            self._timer.cancel()
        if self._liveness is not None:
            self._liveness.close()
        self.raft.close()
        self._executor.shutdown()
        await asyncio.to_thread(self._executor.close)
        await asyncio.sleep(0)
        self.raft.close_log()
        self._resources.close()

    async def _resign(self) -> None:
        """Let another voter lead before this one stops, within a request's timeout."""
        client = self.raft.client
        if not client.is_leader or len(client.voters) == 1:
            return
        epoch = client.leader_and_epoch.epoch
        self.raft.driver.resign(epoch)
        timeout_ms = self._config.quorum.controller_quorum_request_timeout_ms
        deadline_ms = self._clock.steady_ms() + timeout_ms
        while client.leader_and_epoch.leader_id is None or client.leader_and_epoch.epoch <= epoch:
            left_ms = deadline_ms - self._clock.steady_ms()
            if left_ms <= 0:
                return
            self._leader_changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leader_changed.wait(), left_ms / 1_000)

    def _checked_meta_properties(self) -> MetaProperties:
        meta = meta_properties.load(self._disk, self._directory)
        if meta is None:
            raise StorageError(_not_formatted(self._directory))
        if meta.cluster_id is None or meta.directory_id is None:
            raise StorageError(
                f"meta.properties in {self._directory} lacks cluster.id or directory.id; format "
                "the directory again with headwater storage format"
            )
        meta.check(node_id=self._config.static.node_id, cluster_id=meta.cluster_id)
        return meta

    def _identity(
        self, meta: MetaProperties, bound: Sequence[listener_endpoint.Endpoint]
    ) -> RaftIdentity:
        assert meta.directory_id is not None
        quorum = self._config.quorum
        return RaftIdentity(
            key=ReplicaKey(self._config.static.node_id, TopicId.parse(meta.directory_id)),
            cluster_id=meta.cluster_id,
            listener_name=self._listener_name,
            endpoints=tuple(
                Endpoint(each.listener, each.host, each.port)
                for each in advertised(self._config.static.settings, bound, own_host_name)
            ),
            static_voters=static_voters(quorum, self._listener_name),
            bootstrap_servers=tuple(
                Node(_FIRST_BOOTSTRAP_ID - index, each.host, each.port)
                for index, each in enumerate(quorum.bootstrap_servers)
            ),
        )

    def _bootstrap_records(self) -> list[MetadataRecord]:
        content = read_whole(self._disk, self._directory / BOOTSTRAP_FILE_NAME)
        if content is not None:
            return records_in(content)
        if self.raft.log.end_offset == 0:
            # Its first records are in that file: without them this would be another cluster.
            raise StorageError(
                f"no {BOOTSTRAP_FILE_NAME} in {self._directory}, and its metadata log is empty; "
                "format the directory with headwater storage format"
            )
        return []

    def _image_for_authentication(self) -> ClusterImage:
        """The image that has the SCRAM credentials.

        Note: a controller learns only from the leader what is committed, and needs credentials to
        find the leader. Until then it uses all records of its own log: those after its snapshot may
        have a new password.
        """
        return self.loader.image if self._local_image is None else self._local_image

    def _read_local_image(self) -> ClusterImage:
        """The image of this replica's snapshot and log, or else of `bootstrap.checkpoint`."""
        log = self.raft.log
        loader = MetadataLoader(self.cluster_id, self.raft.client, log)
        if log.latest_snapshot_id is not None:
            loader.load_snapshot(log.latest_snapshot_id)
        start_offset = max(log.start_offset, loader.end.offset)
        if start_offset < log.end_offset:
            loader.commit(start_offset, log.end_offset)
        return loader.image if loader.has_records else self.writer.bootstrap_image(loader.image)

    def _new_quota_managers(self) -> QuotaManagers:
        return QuotaManagers(self._config.static.settings, self._clock, self._request_timer)

    def _maybe_snapshot(self) -> None:
        """Take a snapshot after many bytes of records; then clean the log."""
        quorum = self._config.quorum
        has_much = (
            self.loader.bytes_since_snapshot
            >= quorum.metadata_log_max_record_bytes_between_snapshots
        )
        if not has_much or not self.loader.can_snapshot:
            return
        snapshot_id = self.loader.snapshot()
        _log.info("Wrote snapshot: id=%s", snapshot_id)
        limit_bytes = quorum.metadata_max_retention_bytes
        if 0 <= limit_bytes < self.raft.log.size_bytes:
            self.raft.client.clean_log()

    def _tick(self) -> None:
        self._ticks += 1
        if self._timer is not None:
            late_s = self._loop.time() - self._timer.when()
            self._loop_delay.record(int(late_s * _NS_PER_S))
        now_ms = self._clock.steady_ms()
        self.raft.sweep()
        if self._liveness is not None:
            self._liveness.sweep()
        self._request_timer.expire(now_ms)
        if self.services.quorum_controller is not None:
            timed_out = self.services.quorum_controller.expire_sessions()
            self._counters.timed_out_brokers += timed_out
        self._registration.maybe_register(now_ms)
        if self.raft.client.has_inconsistent_cluster_id and not self._has_warned:
            self._has_warned = True
            _log.error(
                "The other controllers belong to another cluster: cluster_id=%s directory=%s",
                self.cluster_id,
                self._directory,
            )
        if self._ticks % _TICKS_PER_SWEEP == 0:
            self.server.sweep(now_ms)
            if self._metrics_port is not None:
                self._metrics_port.sweep(now_ms)
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _disk_failed(self, error: StorageError) -> None:
        self._broken(f"the metadata log cannot be written: {error}")

    def _replica_broken(self, error: Exception) -> None:
        _log.critical("The replica of the metadata log has stopped", exc_info=error)
        self._broken(f"the replica of the metadata log has stopped: {error!r}")

    # `RaftListener`

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        changes = self.loader.commit(start_offset, end_offset)
        apply_acl_changes(self._authorizer, changes)
        self._end_early_start()
        if self._quota_managers.changed(changes):
            self.services.quotas = self._quota_managers.in_force
        self.writer.committed(end_offset)
        self._watch_brokers()
        if self.broker is not None:
            self.broker.log_advanced()
        self._maybe_snapshot()

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        before = self.loader.image.acls
        self.loader.load_snapshot(snapshot_id)
        gone = [each for each in before if each not in self.loader.image.acls]
        apply_acl_changes(self._authorizer, [AclsReplaced(each, NO_ACLS) for each in gone])
        load_acls(self._authorizer, self.loader.image)
        self._end_early_start()
        self._quota_managers = self._new_quota_managers()
        self._quota_managers.load(self.loader.image)
        self.services.quotas = self._quota_managers.in_force
        self._watch_brokers()
        if self.broker is not None:
            self.broker.snapshot_loaded(self.loader.image, snapshot_id.offset - 1)
        _log.info("Loaded snapshot: offset=%d epoch=%d", snapshot_id.offset, snapshot_id.epoch)

    def _end_early_start(self) -> None:
        """Use the ACLs and credentials of the image, once it is complete.

        It has to have all that the log had at the start. A snapshot alone is not enough, nor a part
        of a transaction: an ACL or a password may have changed after it. Before, only super users
        are authorized.
        """
        known_end = min(self._first_end_offset, self.raft.log.end_offset)
        is_complete = (
            self.loader.has_records
            and not self.loader.is_in_transaction
            and self.loader.end.offset >= known_end
        )
        if self.services.is_early_start and is_complete:
            self.services.is_early_start = False
            self.services.authorizer = self._authorizer
            self._local_image = None

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        active, self.services.quorum_controller = self.services.quorum_controller, None
        # Fails the writes under way, upon which their controller resigns.
        self.writer.leader_changed(leader)
        if active is not None:
            active.stop()
        if self.writer.image is not None:
            self._become_active(leader.epoch)
        self._watch_brokers()
        if self._liveness is not None and self.raft.client.is_voter:
            self._liveness.watch_leader(leader)
        if leader.leader_id is not None:
            self._counters.new_active_controllers += 1
        self._leader_changed.set()
        if self.broker is not None:
            self.broker.controller_changed()
        name = "none" if leader.leader_id is None else leader.leader_id
        _log.info("Leader of the metadata quorum: leader=%s epoch=%d", name, leader.epoch)

    def _committed(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        if self.broker is not None:
            self.broker.committed(image, changes, offset)

    def _become_active(self, epoch: int) -> None:
        image = self.writer.image
        assert image is not None, "this node does not lead the quorum"

        def resigned(error: HeadwaterError) -> None:
            _log.info("Resigned as active controller: epoch=%d reason=%s", epoch, error)
            if self.services.quorum_controller is active:
                self.services.quorum_controller = None
                self.raft.driver.resign(epoch)

        active = QuorumController(
            static=self._config.static,
            writer=self.writer,
            image=image,
            kraft_version=lambda: self.raft.client.kraft_version,
            session_timeout_ms=self._config.quorum.broker_session_timeout_ms,
            now_ms=self._clock.steady_ms,
            call_later=self._later,
            on_resigned=resigned,
        )
        self.services.quorum_controller = active
        active.start()

    def _later(self, delay_ms: int, work: Callable[[], None]) -> object:
        return self._loop.call_later(delay_ms / 1_000, work)


class _LateService:
    """Passes requests on; the acceptors start only after `apis` is set."""

    apis: ControllerApis

    @property
    def counters(self) -> Mapping[ApiKey, RequestCounters]:
        return self.apis.counters

    def handle_api_versions(self, slot: ResponseSlot, frame: memoryview) -> None:
        self.apis.handle_api_versions(slot, frame)

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        self.apis.serve(slot, frame)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        self.apis.failed(connection, error)

    def closed(self, connection: ServedConnection) -> None:
        self.apis.closed(connection)


def metadata_log_directory(settings: BrokerSettings, quorum: QuorumSettings) -> Path:
    """`metadata.log.dir`, else the first log directory."""
    return Path(quorum.metadata_log_dir or (settings.log_dirs or (settings.log_dir,))[0])


def quorum_config(quorum: QuorumSettings) -> QuorumConfig:
    return QuorumConfig(
        election_timeout_ms=quorum.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=quorum.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=quorum.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=quorum.controller_quorum_request_timeout_ms,
        retry_backoff_ms=quorum.controller_quorum_retry_backoff_ms,
    )


def static_voters(quorum: QuorumSettings, listener_name: str) -> VoterSet:
    return VoterSet.of(
        VoterNode(
            key=ReplicaKey(each.node_id),
            endpoints=(Endpoint(listener_name, each.host, each.port),),
        )
        for each in quorum.voters
    )


def _controller_endpoints(
    settings: BrokerSettings, quorum: QuorumSettings
) -> list[listener_endpoint.Endpoint]:
    """The listeners of a controller; InvalidSetting for others."""
    names = [each.upper() for each in quorum.controller_listener_names]
    endpoints = own_endpoints(settings)
    for endpoint in endpoints:
        if endpoint.name not in names:
            raise InvalidSetting(
                f"listeners has {endpoint.name}, which is not in controller.listener.names; a "
                "node with process.roles=controller has no other listeners"
            )
    if names[0] not in [each.name for each in endpoints]:
        raise InvalidSetting(f"controller.listener.names has {names[0]}, which is not in listeners")
    return endpoints


def _not_formatted(directory: Path) -> str:
    return f"no meta.properties in {directory}; format the directory with headwater storage format"
