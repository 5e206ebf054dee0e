"""A broker in a ZooKeeper cluster.

Note: at startup it has no topics, regardless of its log directories. It registers, receives
LeaderAndIsr and UpdateMetadata from the controller, and only then is ready. At shutdown it first
asks the controller to move its leaderships (controlled shutdown) and keeps serving meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from headwater.broker.authentication.authentication import inter_broker_login
from headwater.broker.inter_broker.client import NetworkInterBrokerClient
from headwater.broker.inter_broker.connect import PeerConnector
from headwater.broker.inter_broker.liveness import ConnectionLiveness
from headwater.broker.node.cluster_membership import ClusterMembership
from headwater.broker.node.controlled_shutdown import OnResponse, request_controlled_shutdown
from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.node.forwarding_manager import MembershipForwardingManager
from headwater.broker.node.listeners import listener_of_brokers
from headwater.broker.node.node import Node, known_cluster_id, new_cluster_id
from headwater.common.exceptions import (
    HeadwaterError,
    SessionExpired,
    StoreUnreachable,
    WrongLogDirectory,
)
from headwater.common.ids import NodeId
from headwater.metadata.changes import MetadataChange, apply
from headwater.metadata.cluster_image import FIRST_VERSION, BrokerEndpoint, ClusterImage, Version
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.liveness import NoLiveness
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.standalone import standalone_store
from headwater.metadata_store.zookeeper.kazoo_zookeeper import KazooZooKeeper
from headwater.metadata_store.zookeeper.zookeeper_store import ZooKeeperStore
from headwater.network.event_loop import call_soon_from_threads
from headwater.network.peer import PeerSettings
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from headwater.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerServices,
)

_log = logging.getLogger(__name__)

T = TypeVar("T")

_METADATA_WARNING_S: Final = 10
_SLOW_CONNECT_S: Final = 2

CONNECTION_TIMEOUT_MS: Final = 30_000
"""Minimum default of `zookeeper.connection.timeout.ms`."""


class ClusterNode(Node):
    """A `Node` whose metadata is in ZooKeeper."""

    # `StoreListener`; events before the membership exists are buffered.

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:
        if self._has_membership:
            self._membership.changed(changes, version)
        else:
            self._buffered_changes.append((changes, version))

    def session_lost(self) -> None:
        if self._has_membership:
            self._membership.session_lost()

    def registration_lost(self) -> None:
        if self._has_membership:
            self._membership.registration_lost()

    # `headwater.broker.inter_broker.client.BrokerDirectory`.

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        # The controller reaches brokers before they appear in each other's metadata.
        controller = self._membership.controller
        image = self._controller_access.image if controller is None else controller.image
        broker = image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(self._listener)

    # Startup.

    async def _open_store(self) -> ClusterImage:
        settings = self._static.settings
        assert settings.zookeeper_connect is not None
        self._buffered_changes: list[tuple[Sequence[MetadataChange], Version]] = []
        self._has_membership = False
        self._has_metadata = asyncio.Event()
        self._listener = listener_of_brokers(settings, self._endpoints)
        tls = self._tls.towards_brokers(settings, self._listener)
        self._check_directories()
        self._zk_client = KazooZooKeeper(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            post=call_soon_from_threads(self._loop),
        )
        self._store = ZooKeeperStore(
            self._zk_client,
            clock=self._clock,
            call_later=self._later,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
        )
        self._store.listen(self)
        self._resources.callback(self._end_session)
        self._zk_client.start()
        self.cluster_id = await self._connect()
        self._inter_broker_client = NetworkInterBrokerClient(
            self._static.node_id,
            directory=self,
            dial=PeerConnector(self._loop, PeerSettings(), tls),
            clock=self._clock,
            call_soon=self._loop.call_soon,
            log_in=inter_broker_login(settings, self._listener, self._rng),
        )
        self._liveness = ConnectionLiveness(
            directory=self,
            dial=PeerConnector(self._loop, PeerSettings(), tls),
            clock=self._clock,
            call_later=self._later,
        )
        configs: asyncio.Future[Sequence[MetadataChange]] = self._loop.create_future()
        self._store.read_configs(then=lambda changes: _resolve(configs, changes))
        empty = ClusterImage(cluster_id=self.cluster_id)
        self._first_image = apply(empty, await configs, FIRST_VERSION)
        return self._first_image

    async def _connect(self) -> str:
        """Connect to ZooKeeper and read or create the cluster id.

        Raises `StoreUnreachable` after `zookeeper.connection.timeout.ms`.
        """
        settings = self._static.settings
        timeout_ms = settings.zookeeper_connection_timeout_ms or max(
            settings.zookeeper_session_timeout_ms, CONNECTION_TIMEOUT_MS
        )
        slow = self._loop.call_later(
            _SLOW_CONNECT_S,
            _log.warning,
            "Waiting for ZooKeeper: zookeeper.connect=%s",
            settings.zookeeper_connect,
        )
        proposed = known_cluster_id(self._disk, self._paths) or new_cluster_id(self._rng)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while True:
                    try:
                        return await self._read_cluster_id(proposed)
                    except SessionExpired as error:
                        # On a busy machine a session may expire before its first request.
                        _log.warning(
                            "ZooKeeper session expired, retrying with a new one: error=%s", error
                        )
        except TimeoutError:
            raise StoreUnreachable(
                f"ZooKeeper at {settings.zookeeper_connect} does not answer within {timeout_ms} ms"
            ) from None
        finally:
            slow.cancel()

    async def _read_cluster_id(self, proposed_id: str) -> str:
        founded: asyncio.Future[str] = self._loop.create_future()

        self._store.create_cluster(
            proposed_id,
            then=lambda cluster_id: _resolve(founded, cluster_id),
            on_error=lambda error: _reject(founded, error),
        )
        return await founded

    def _check_directories(self) -> None:
        for path in self._paths:
            if self._disk.status(path / standalone_store.FILE_NAME) is not None:
                raise WrongLogDirectory(
                    f"{path} belongs to a standalone broker, whose topics the cluster does not know"
                )

    def _replicas(self) -> ReplicaFetcherManager:
        self._fetching = ReplicaFetcherManager(
            ReplicaFetcherManagerServices(
                node_id=self._static.node_id,
                broker_epoch=lambda: self._membership.broker_epoch,
                inter_broker_client=self._inter_broker_client,
                clock=self._clock,
                timer=self._timer,
                settings=self._static.settings,
            )
        )
        return self._fetching

    def _inter_broker_client_or_none(self) -> NetworkInterBrokerClient:
        return self._inter_broker_client

    def _brokers_listener(self) -> str:
        return self._listener

    def _new_controller_access(self) -> ControllerAccess:
        self._membership = ClusterMembership(
            static=self._static,
            store=self._store,
            inter_broker_client=self._inter_broker_client,
            liveness=self._liveness if self._fences_refusing_brokers() else NoLiveness(),
            metadata_cache=MetadataCache(
                self._first_image,
                self._metadata_changed,
                node_id=self._static.node_id,
                log_dir_error=self._partitions.log_dir_error,
            ),
            call_later=self._later,
            fatal=lambda error: self._broken(str(error)),
        )
        self._forwarding_manager = MembershipForwardingManager(
            self._static,
            membership=self._membership,
            inter_broker_client=self._inter_broker_client,
            clock=self._clock,
            rng=self._rng,
            call_later=self._later,
        )
        return self._forwarding_manager

    async def _join(self, registration: Registration) -> None:
        self._inter_broker_client.own_service = self.dispatch
        self._apply_initial_configs(self._first_image)
        self._start_background_tasks()
        registered: asyncio.Future[None] = self._loop.create_future()
        self._has_membership = True
        self._membership.fatal = lambda error: _reject(registered, error)
        self._membership.register(registration, then=lambda: _resolve(registered, None))
        for changes, version in self._buffered_changes:
            self._membership.changed(changes, version)
        await registered
        self._membership.fatal = lambda error: self._broken(str(error))

    async def _await_metadata(self) -> None:
        while not self._has_metadata.is_set():
            try:
                async with asyncio.timeout(_METADATA_WARNING_S):
                    await self._has_metadata.wait()
            except TimeoutError:
                _log.warning("Still waiting for metadata from the controller")
        self.broker.producer_ids.prepare()

    def _metadata_changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        self._changed(image, changes)
        # `has_full_update` is only set after this has returned.
        self._loop.call_soon(self._check_metadata)

    def _check_metadata(self) -> None:
        if self._membership.metadata_cache.has_full_update:
            self._has_metadata.set()

    # Shutdown.

    async def _take_leave(self) -> None:
        settings = self._static.settings
        # The last broker of a cluster has no broker to move its leaderships to.
        if settings.controlled_shutdown_enable and len(self._controller_access.image.brokers) > 1:
            await request_controlled_shutdown(
                self._request_shutdown,
                is_connected=lambda: self._zk_client.is_connected,
                settings=settings,
            )
        self._membership.close()
        self._fetching.close()

    def _request_shutdown(self, timeout_ms: int, answered: OnResponse) -> None:
        self._forwarding_manager.send_to_controller(
            ControlledShutdownRequest(
                broker_id=self._static.node_id, broker_epoch=self._membership.broker_epoch
            ),
            then=answered,
            on_error=answered,
            timeout_ms=timeout_ms,
        )

    async def _close_store(self) -> None:
        self._has_membership = False
        self._store.close()
        self._liveness.close()
        self._inter_broker_client.close()
        await asyncio.to_thread(self._zk_client.end)

    def _end_session(self) -> None:
        """Called when a start fails, and again after an orderly stop."""
        self._has_membership = False
        self._store.close()
        self._zk_client.end()

    # Other hooks of `Node`.

    def _fences_refusing_brokers(self) -> bool:
        return self._static.settings.headwater_refusing_brokers_fence

    def _broker_epoch(self) -> int:
        return self._membership.broker_epoch

    def _store_failure(self) -> None:
        return None

    def _directory_failed(self) -> None:
        if self._partitions.handle_failed_log_dirs():
            self._store.report_failed_directory(self._static.node_id)

    def _tick(self) -> None:
        self._inter_broker_client.sweep()
        self._liveness.sweep()

    def _later(self, delay_ms: int, work: Callable[[], None]) -> object:
        return self._loop.call_later(delay_ms / 1_000, work)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    """Set a result, unless the wait was cancelled."""
    if not future.done():
        future.set_result(result)


def _reject(future: asyncio.Future[T], error: HeadwaterError) -> None:
    if not future.done():
        future.set_exception(error)
