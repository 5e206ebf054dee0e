"""A node with `process.roles=broker` (Kafka: BrokerServer).

    1. read meta.properties, observe the metadata log, wait for the first committed records
    2. open the logs and bind the ports
    3. register, and wait until the controller says that the log's image has the registration
    4. publish the image: partitions get their roles, coordinators load
    5. accept connections, say that the broker is ready, and wait until it is unfenced

Shutdown asks the controller to move leaderships with heartbeats. It ends without them if no
heartbeat was answered for `broker.session.timeout.ms`: the controller has fenced the broker then.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from headwater.broker.authentication.authentication import controller_login, inter_broker_login
from headwater.broker.broker_server.assignments_manager import AssignmentsManager
from headwater.broker.broker_server.broker_lifecycle_manager import (
    BrokerDetails,
    BrokerLifecycleManager,
    BrokerState,
)
from headwater.broker.broker_server.broker_metadata_publisher import BrokerMetadataPublisher
from headwater.broker.broker_server.heartbeat_sender import HeartbeatSender
from headwater.broker.broker_server.kraft_forwarding_manager import KRaftForwardingManager
from headwater.broker.broker_server.metadata_observer import MetadataObserver
from headwater.broker.broker_server.shared_replica import MetadataReplica, SharedReplica
from headwater.broker.broker_server.supported_features import (
    KRAFT_FEATURES,
    check_finalized_features,
)
from headwater.broker.controller_server.controller_server import (
    ControllerServer,
    metadata_log_directory,
)
from headwater.broker.controller_server.raft_manager import RaftManagerTools
from headwater.broker.inter_broker.channel import Dial, LogIn
from headwater.broker.inter_broker.client import NetworkInterBrokerClient
from headwater.broker.inter_broker.connect import PeerConnector
from headwater.broker.inter_broker.node_to_controller_channel_manager import (
    DIRECTORY_ASSIGNMENTS,
    ControllerAwareClient,
    NodeToControllerChannelManager,
)
from headwater.broker.metrics.prometheus_exposition import Family
from headwater.broker.metrics.quorum_metrics import broker_metadata_families, raft_families
from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.node.listeners import listener_of_brokers
from headwater.broker.node.node import Node
from headwater.broker.requests.api_routes import QUORUM_ADMIN_APIS
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    ControllerUnreachable,
    DuplicateBrokerRegistration,
    HeadwaterError,
    StorageError,
    WrongLogDirectory,
)
from headwater.common.ids import NO_EPOCH, NodeId, TopicId
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerEndpoint,
    ClusterImage,
)
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.metadata_store import Registration
from headwater.network.event_loop import call_soon_from_threads
from headwater.network.peer import PeerSettings
from headwater.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from headwater.protocol.older_versions import Message
from headwater.replication.partition import Partition
from headwater.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerServices,
)
from headwater.storage.io.thread_executor import ThreadExecutor
from headwater.storage.log_manager import meta_properties
from headwater.storage.log_manager.meta_properties import MetaProperties

_log = logging.getLogger(__name__)

T = TypeVar("T")

_WAITING_WARNING_S: Final = 10
_LONGEST_SHUTDOWN_MS: Final = 300_000


class BrokerServer(Node):
    """A `Node` whose metadata is in the log of a KRaft quorum."""

    def __init__(
        self,
        static: StaticConfig,
        quorum: QuorumSettings,
        *,
        on_failure: Callable[[str], None],
        controller: ControllerServer | None = None,
    ) -> None:
        """`controller` is that of the same process, on a node with both roles."""
        super().__init__(static, on_failure=on_failure)
        self._own_controller = controller
        self._quorum = quorum
        self._metadata_directory = metadata_log_directory(static.settings, quorum)
        self._meta = self._checked_meta_properties()
        self._lifecycle = BrokerLifecycleManager(
            heartbeat_interval_ms=quorum.broker_heartbeat_interval_ms
        )
        self._publisher: BrokerMetadataPublisher | None = None
        self._progress = asyncio.Event()
        self._assignments = AssignmentsManager(static.node_id)
        self._has_observed = False
        self._is_closed = False

    def _checked_meta_properties(self) -> MetaProperties:
        """Read the metadata directory's file; other log directories may be new."""
        directory = self._metadata_directory
        meta = meta_properties.load(self._disk, directory) if directory.is_dir() else None
        if meta is None or meta.cluster_id is None or meta.directory_id is None:
            raise StorageError(
                f"{directory} is not formatted; format it with headwater storage format"
            )
        meta.check(node_id=self._static.node_id, cluster_id=meta.cluster_id)
        return meta

    # `headwater.broker.inter_broker.client.BrokerDirectory`.

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        broker = self._controller_access.image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(self._listener)

    # `MetadataImageListener`.

    def committed(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        if self._publisher is not None:
            self._publisher.publish(image, changes, offset)

    def snapshot_loaded(self, image: ClusterImage, offset: int) -> None:
        if self._publisher is not None:
            self._publisher.publish_snapshot(image, offset)

    def log_advanced(self) -> None:
        self._has_observed = True
        self._progress.set()

    def controller_changed(self) -> None:
        controller_id = self._observer.controller_id
        if self._publisher is not None:
            self._publisher.controller_changed(
                NO_CONTROLLER if controller_id is None else controller_id
            )
        self._controller_channel.controller_changed()
        self._lifecycle.controller_changed(self._clock.steady_ms())
        self._heartbeats.reschedule()

    # Startup.

    async def _open_store(self) -> ClusterImage:
        settings = self._static.settings
        assert self._meta.cluster_id is not None
        self.cluster_id = self._meta.cluster_id
        if self._metadata_directory not in self._paths:
            self._lock(self._metadata_directory)
        self._listener = listener_of_brokers(settings, self._endpoints)
        self._raft_executor = ThreadExecutor(
            1, call_soon_from_threads(self._loop), name="headwater-raft"
        )
        self._resources.callback(self._raft_executor.close)
        controllers = self._quorum.controller_listener_names[0].upper()
        log_in = controller_login(
            settings, controllers, self._quorum.sasl_mechanism_controller_protocol, self._rng
        )
        dial = PeerConnector(
            self._loop, PeerSettings(), self._tls.towards_brokers(settings, controllers)
        )
        self._observer = self._new_replica(dial, log_in)
        self._controller_channel = NodeToControllerChannelManager(
            self._static.node_id,
            controller=lambda: self._observer.controller_endpoint,
            dial=dial,
            clock=self._clock,
            call_soon=self._loop.call_soon,
            log_in=log_in,
        )
        self._heartbeats = HeartbeatSender(
            self._lifecycle,
            channel=self._controller_channel,
            applied_offset=lambda: self._observer.applied_offset,
            session_timeout_ms=self._quorum.broker_session_timeout_ms,
            clock=self._clock,
            loop=self._loop,
            on_answer=self._progress.set,
        )
        self._resources.callback(self._stop_observing)
        self._observer.start()
        self._sweep()
        await self._wait_for(
            lambda: self._has_observed or self._observer.has_inconsistent_cluster_id,
            f"the controllers: {self._controllers()}",
        )
        if not self._has_observed:
            raise self._inconsistent_cluster_id()
        self._first_image = replace(
            ClusterImage(cluster_id=self.cluster_id),
            configs=self._observer.image.configs,
            features=self._observer.image.features,
            acls=self._observer.image.acls,
        )
        check_finalized_features(self._first_image.features)
        return self._first_image

    def _new_replica(self, dial: Dial, log_in: LogIn | None) -> MetadataReplica:
        controllers = self._quorum.controller_listener_names[0].upper()
        if self._own_controller is not None:
            self._own_controller.broker = self
            self._has_observed = self._own_controller.loader.has_records
            return SharedReplica(self._own_controller, controllers)
        assert self._meta.directory_id is not None
        return MetadataObserver(
            self._static.node_id,
            self._metadata_directory,
            directory_id=TopicId.parse(self._meta.directory_id),
            cluster_id=self.cluster_id,
            quorum=self._quorum,
            tools=RaftManagerTools(
                loop=self._loop,
                clock=self._clock,
                random=self._rng,
                disk=self._disk,
                executor=self._raft_executor,
                dial=dial,
                log_in=log_in,
            ),
            listener=self,
            broken=self._broken,
        )

    def _lock(self, path: Path) -> None:
        """Lock a directory, unless the controller of this process has."""
        if self._own_controller is None or path != self._metadata_directory:
            super()._lock(path)

    def _replicas(self) -> ReplicaFetcherManager:
        settings = self._static.settings
        self._broker_client = NetworkInterBrokerClient(
            self._static.node_id,
            directory=self,
            dial=PeerConnector(
                self._loop, PeerSettings(), self._tls.towards_brokers(settings, self._listener)
            ),
            clock=self._clock,
            call_soon=self._loop.call_soon,
            log_in=inter_broker_login(settings, self._listener, self._rng),
        )
        self._inter_broker_client = ControllerAwareClient(
            self._broker_client, self._controller_channel
        )
        self._fetching = ReplicaFetcherManager(
            ReplicaFetcherManagerServices(
                node_id=self._static.node_id,
                broker_epoch=self._broker_epoch,
                inter_broker_client=self._inter_broker_client,
                clock=self._clock,
                timer=self._timer,
                settings=settings,
            )
        )
        return self._fetching

    def _inter_broker_client_or_none(self) -> ControllerAwareClient:
        return self._inter_broker_client

    def _brokers_listener(self) -> str:
        return self._listener

    def _new_dispatch(self) -> Dispatch:
        # Brokers of a KRaft cluster get no requests from a controller.
        return Dispatch(
            self.broker,
            brokers_listener=self._listener,
            cluster_apis=sorted(QUORUM_ADMIN_APIS),
            features=KRAFT_FEATURES,
        )

    def _new_controller_access(self) -> ControllerAccess:
        self._publisher = BrokerMetadataPublisher(
            self._static.node_id,
            self._first_image,
            self._changed,
            kraft_version=lambda: self._observer.kraft_version,
        )
        return KRaftForwardingManager(
            self._static,
            publisher=self._publisher,
            channel=self._controller_channel,
            broker_epoch=self._broker_epoch,
            clock=self._clock,
            rng=self._rng,
            call_later=self._later,
        )

    async def _join(self, registration: Registration) -> None:
        self._broker_client.own_service = self.dispatch
        if len(self._paths) > 1:
            self._partitions.on_log_opened = self._report_directory
        self._apply_initial_configs(self._first_image)
        self._start_background_tasks()
        epoch = self._directories.clean_broker_epoch()
        self._lifecycle.start(
            BrokerDetails(
                node_id=self._static.node_id,
                cluster_id=self.cluster_id,
                incarnation_id=TopicId(self._rng.bytes(16)),
                endpoints=registration.endpoints,
                features=dict(KRAFT_FEATURES),
                rack=registration.rack,
                log_dirs=[
                    TopicId.parse(each.directory_id)
                    for each in self._directories.serving()
                    if each.directory_id is not None
                ],
                previous_broker_epoch=NO_EPOCH if epoch is None else epoch,
            ),
            self._clock.steady_ms(),
        )
        self._heartbeats.reschedule()
        timeout_ms = self._quorum.initial_broker_registration_timeout_ms
        deadline_ms = self._clock.steady_ms() + timeout_ms
        await self._wait_for(
            lambda: self._lifecycle.has_caught_up or self._has_failed_to_register(deadline_ms),
            "the active controller to register this broker",
        )
        if not self._lifecycle.has_caught_up:
            raise self._registration_error(timeout_ms)
        assert self._publisher is not None
        self._publisher.publish_first(self._observer.image, self._observer.applied_offset)
        self.controller_changed()

    def _has_failed_to_register(self, deadline_ms: int) -> bool:
        is_late = self._clock.steady_ms() >= deadline_ms
        return self._lifecycle.refusal is not None or (
            is_late and self._lifecycle.broker_epoch == NO_EPOCH
        )

    def _inconsistent_cluster_id(self) -> HeadwaterError:
        return WrongLogDirectory(
            f"{self._metadata_directory} belongs to cluster {self.cluster_id}, and the controllers "
            f"at {self._controllers()} to another one"
        )

    def _controllers(self) -> str:
        quorum = self._quorum
        return ",".join(
            quorum.controller_quorum_bootstrap_servers or quorum.controller_quorum_voters
        )

    def _registration_error(self, timeout_ms: int) -> HeadwaterError:
        error = self._lifecycle.refusal or self._lifecycle.last_error
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return self._inconsistent_cluster_id()
        if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return DuplicateBrokerRegistration(
                f"another live broker has the id {self._static.node_id}"
            )
        reason = "no answer" if error is None else error.name
        if self._lifecycle.refusal is not None:
            return ControllerUnreachable(f"the controller refused the registration: {reason}")
        return ControllerUnreachable(
            f"not registered by a controller within {timeout_ms} ms "
            f"(initial.broker.registration.timeout.ms): {reason}"
        )

    async def _await_metadata(self) -> None:
        self._lifecycle.set_ready_to_unfence(self._clock.steady_ms())
        self._heartbeats.reschedule()
        await self._wait_for(
            lambda: (
                self._lifecycle.state is BrokerState.RUNNING
                and self._static.node_id in self._controller_access.image.brokers
            ),
            "the active controller to unfence this broker",
        )
        self.broker.producer_ids.prepare()

    async def _wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        waited_s = 0
        while not is_done():
            self._progress.clear()
            try:
                async with asyncio.timeout(1):
                    await self._progress.wait()
            except TimeoutError:
                waited_s += 1
                if waited_s % _WAITING_WARNING_S == 0:
                    _log.warning("Still waiting for %s", what)

    # Log directories.

    def _report_directory(self, partition: Partition) -> None:
        """Tell the controller where a replica is, unless it knows."""
        directory_id = self._directories.directory_of(partition.name).directory_id
        state = self._controller_access.image.partition(*partition.name)
        if directory_id is None or state is None:
            return
        actual = TopicId.parse(directory_id)
        if state.directory_of(self._static.node_id) != actual:
            self._assignments.assign(partition.topic_id, partition.number, actual)

    def _send_assignments(self) -> None:
        now_ms = self._clock.steady_ms()
        request = self._assignments.next_request(now_ms, self._broker_epoch())
        if request is None:
            return

        def answered(response: Message) -> None:
            assert isinstance(response, AssignReplicasToDirsResponse)
            self._assignments.handle_response(response, self._clock.steady_ms())

        self._controller_channel.send_request(
            request,
            timeout_ms=self._static.settings.request_timeout_ms,
            then=answered,
            on_error=lambda _: self._assignments.handle_response(None, self._clock.steady_ms()),
            name=DIRECTORY_ASSIGNMENTS,
        )

    # Shutdown.

    async def _take_leave(self) -> None:
        has_others = len(self._controller_access.image.brokers) > 1
        if self._static.settings.controlled_shutdown_enable and has_others:
            self._lifecycle.begin_controlled_shutdown(self._clock.steady_ms())
            self._heartbeats.begin_shutdown()
            deadline_ms = self._clock.steady_ms() + _LONGEST_SHUTDOWN_MS
            await self._wait_for(
                lambda: (
                    self._lifecycle.state is BrokerState.SHUTTING_DOWN
                    or self._heartbeats.has_lost_controller(deadline_ms)
                ),
                "the active controller to move leaderships",
            )
            if self._lifecycle.state is not BrokerState.SHUTTING_DOWN:
                _log.warning("Controlled shutdown did not complete; stopping without it")
        self._is_closed = True
        self._heartbeats.close()
        self._fetching.close()

    async def _close_store(self) -> None:
        self._stop_observing()
        self._broker_client.close()
        self._raft_executor.shutdown()
        await asyncio.to_thread(self._raft_executor.close)
        await asyncio.sleep(0)
        self._observer.close_log()

    def _stop_observing(self) -> None:
        """Called when a start fails, and again after an orderly stop."""
        self._is_closed = True
        self._heartbeats.close()
        self._controller_channel.close()
        self._observer.close()

    # Other hooks of `Node`.

    def _controller_families(self) -> Iterator[Family]:
        sources = self._observer.metric_sources
        yield from raft_families(sources)
        yield from broker_metadata_families(sources)
        if self._own_controller is not None:
            yield from self._own_controller.controller_families()

    def _broker_epoch(self) -> int:
        return self._lifecycle.broker_epoch

    def _store_failure(self) -> None:
        return None

    def _directory_failed(self) -> None:
        if not self._partitions.handle_failed_log_dirs():
            return
        for each in self._directories.directories:
            if each.failure is not None and each.directory_id is not None:
                self._lifecycle.directory_failed(
                    TopicId.parse(each.directory_id), self._clock.steady_ms()
                )
        self._heartbeats.reschedule()

    def _sweep(self) -> None:
        """Fail late requests; from the start on, before background tasks run."""
        if not self._is_closed:
            self._observer.sweep()
            self._controller_channel.sweep()
            if not self._has_observed and self._observer.has_caught_up:
                # A snapshot has all committed records, so that none follows it.
                self.log_advanced()
            self._loop.call_later(0.1, self._sweep)

    def _tick(self) -> None:
        self._broker_client.sweep()
        self._send_assignments()

    def _later(self, delay_ms: int, work: Callable[[], None]) -> object:
        return self._loop.call_later(delay_ms / 1_000, work)
