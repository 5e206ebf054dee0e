"""Composition root: create, start and stop one broker.

The order of startup matters. Directories are locked before anything in them is read; logs are open
before sockets are bound; sockets are bound before the broker registers, since the system may choose
the port; and only a registered broker serves requests. Shutdown goes the other way.

`standalone_node`, `cluster_node` and `broker_server` differ in where metadata is stored and where
the controller runs; this module has everything that they share.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from headwater.broker.authentication.authentication import authenticators, sasl_listeners_of
from headwater.broker.coordinators.coordinators import new_coordinators
from headwater.broker.coordinators.group_lag_sampler import GroupLagSampler
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.metrics.broker_metrics import MetricSources, broker_families
from headwater.broker.metrics.controller_metrics import ControllerSources, controller_families
from headwater.broker.metrics.coordinator_metrics import lag_families
from headwater.broker.metrics.metrics_listener import metrics_endpoint, metrics_port
from headwater.broker.metrics.process_metrics import process_families
from headwater.broker.metrics.prometheus_exposition import Family
from headwater.broker.metrics.quota_metrics import quota_families
from headwater.broker.metrics.runtime_metrics import GcPauses, runtime_families
from headwater.broker.node.authorization import (
    apply_acl_changes,
    authorizer_of,
    load_acls,
    log_omitted_denials,
)
from headwater.broker.node.background_tasks import BackgroundTasks
from headwater.broker.node.broker import Broker
from headwater.broker.node.cache_directory import NodeCache, cache_directory
from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.node.dynamic_config import DynamicConfig
from headwater.broker.node.listeners import (
    advertised,
    advertised_endpoints,
    network_settings,
    own_endpoints,
)
from headwater.broker.node.tls_listeners import TlsListeners
from headwater.broker.requests.dispatch import Dispatch
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.ports import Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.metadata.ports.metadata_store import Registration
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import call_soon_from_threads
from headwater.network.host_name import own_host_name
from headwater.network.socket_server import SocketServer
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_fetcher_manager import ReplicaFetcherManager
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.cleaner.cleaner_process import CleanerProcess
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.io.cold_read import OsColdRead
from headwater.storage.io.disk import Disk
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.io.page_cache_residency import (
    PageCacheRead,
    Residency,
    probe_page_cache_read,
    probe_residency,
)
from headwater.storage.io.thread_executor import ThreadExecutor
from headwater.storage.log_manager import meta_properties
from headwater.storage.log_manager.directory_lock import DirectoryLock
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.log_manager.recovery_threads import RecoveryThreads

_log = logging.getLogger(__name__)

_DRAIN_MS: Final = 5_000
_CLUSTER_ID_BYTES: Final = 16
_CLEANER_THREADS_MAX: Final = 1_000


class Node(ABC):
    """A broker on the running event loop. Started once, stopped once."""

    cluster_id: str

    def __init__(self, static: StaticConfig, *, on_failure: Callable[[str], None]) -> None:
        """`on_failure` is called with the reason if the broker cannot continue."""
        settings = static.settings
        self._static = static
        self._broken = on_failure
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._rng = SystemRandom()
        self._disk = OsDisk()
        self._timer = Timer()
        self._paths = [Path(text) for text in settings.log_dirs or (settings.log_dir,)]
        self._endpoints = own_endpoints(settings)
        # Validate addresses before a directory is created and written to.
        advertised_endpoints(settings, self._endpoints)
        metrics_endpoint(settings)
        self._cache_directory = cache_directory(settings, self._paths)
        self._tls = TlsListeners(settings, self._endpoints)
        self._logins = sasl_listeners_of(
            settings,
            self._endpoints,
            clock=self._clock,
            rng=self._rng,
            timer=self._timer,
            image=lambda: self._controller_access.image,
        )
        self._authorizer = authorizer_of(settings)
        self._resources = ExitStack()
        self._cache: NodeCache | None = None
        self._background_tasks: BackgroundTasks | None = None

    async def start(self) -> list[Endpoint]:
        """Start the broker and return its bound endpoints.

        A failed start releases all locks. A cancelled start ends like a stop, if the broker got
        that far.
        """
        try:
            return await self._start()
        except asyncio.CancelledError:
            if self._background_tasks is None:
                self._resources.close()
            else:
                await self.stop()
            raise
        except BaseException:
            self._resources.close()
            raise

    async def stop(self) -> None:
        """Move leaderships away, answer pending requests, flush logs, shut down cleanly."""
        assert self._background_tasks is not None, "stopped before it was started"
        _log.info("Stopping")
        await self._take_leave()
        # Members get NOT_COORDINATOR and look for the new coordinator.
        self._coordinators.groups.close()
        self._coordinators.transactions.close()
        # A delayed fetch may have minutes left; its response goes out before the connection closes.
        self._timer.expire_all()
        await self.server.stop(drain_ms=_DRAIN_MS)
        self._background_tasks.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        # Jobs end, and their results reach the loop, before the logs are closed. A job that submits
        # another one then runs it at once, on the loop.
        for executor in (
            self._cleaner_executor,
            self._validation_executor,
            self._cold_read_executor,
            *(() if self._cache is None else self._cache.executors),
            self._executor,
        ):
            executor.shutdown()
            await asyncio.to_thread(executor.close)
        await asyncio.sleep(0)
        self._directories.close(broker_epoch=self._broker_epoch())
        await self._close_store()
        self._resources.close()

    # Hooks that each kind of node implements.

    @abstractmethod
    async def _open_store(self) -> ClusterImage:
        """Open the metadata store, set `cluster_id`, and return the first image."""

    @abstractmethod
    def _new_controller_access(self) -> ControllerAccess:
        """Create the access to the controller."""

    @abstractmethod
    async def _join(self, registration: Registration) -> None:
        """Register and load the metadata. The sockets are bound but do not accept yet."""

    @abstractmethod
    async def _await_metadata(self) -> None:
        """Wait for complete metadata. The sockets accept connections."""

    @abstractmethod
    def _broker_epoch(self) -> int:
        """Return the broker epoch of the registration."""

    @abstractmethod
    async def _close_store(self) -> None:
        """Close the metadata store; all logs are flushed."""

    @abstractmethod
    async def _take_leave(self) -> None:
        """Controlled shutdown: move leaderships away before anything stops."""

    @abstractmethod
    def _replicas(self) -> ReplicaFetcherManager | None:
        """Create the replica fetchers; None without other brokers."""

    @abstractmethod
    def _inter_broker_client_or_none(self) -> InterBrokerClient | None:
        """Return the client for other brokers; None without other brokers."""

    @abstractmethod
    def _brokers_listener(self) -> str | None:
        """Return the inter-broker listener; None without other brokers."""

    @abstractmethod
    def _store_failure(self) -> HeadwaterError | None:
        """Return the error that made the metadata store unwritable, if any."""

    @abstractmethod
    def _directory_failed(self) -> None:
        """Handle a log directory that went offline."""

    @abstractmethod
    def _tick(self) -> None:
        """Called ten times a second."""

    # Shared by all.

    async def _start(self) -> list[Endpoint]:
        for path in self._paths:
            _create_directory(path)
            self._lock(path)
        self._executor = ThreadExecutor(
            self._static.settings.background_threads, call_soon_from_threads(self._loop)
        )
        self._resources.callback(self._executor.close)
        self._validation_executor = ThreadExecutor(
            self._static.settings.headwater_record_validation_threads,
            call_soon_from_threads(self._loop),
            name="headwater-validation",
        )
        self._resources.callback(self._validation_executor.close)
        # As many threads as reads may be in progress: a slow disk holds up no other one, nor
        # flushes and checkpoints.
        self._cold_read_executor = ThreadExecutor(
            self._static.settings.headwater_cold_reads_per_data_dir_max * len(self._paths),
            call_soon_from_threads(self._loop),
            name="headwater-cold-read",
        )
        self._resources.callback(self._cold_read_executor.close)
        # Cleaning a log may take hours. The cleaner obeys log.cleaner.threads, which may change;
        # threads start only when they are needed.
        self._cleaner_executor = ThreadExecutor(
            _CLEANER_THREADS_MAX, call_soon_from_threads(self._loop), name="headwater-cleaner"
        )
        self._resources.callback(self._cleaner_executor.close)
        image = await self._open_store()
        load_acls(self._authorizer, image)
        self._open_logs(image)
        bound = self._bind()
        settings = self._static.settings
        await self._join(
            Registration(
                node_id=self._static.node_id,
                directory_id=_directory_id(self._disk, self._paths[0]),
                rack=settings.broker_rack,
                endpoints=advertised(settings, bound, own_host_name),
            )
        )
        self.server.start()
        await self._await_metadata()
        if self._metrics_port is not None:
            self._metrics_port.start()
            _log.info("Serving metrics at http://%s/metrics", self._metrics_port.endpoint.address)
        return bound

    def _lock(self, path: Path) -> None:
        self._resources.enter_context(DirectoryLock(path))

    def _open_logs(self, image: ClusterImage) -> None:
        settings = self._static.settings.storage()
        tools = DirectoryTools(
            node_id=self._static.node_id,
            cluster_id=self.cluster_id,
            disk=self._disk,
            files=OpenFiles(self._disk, settings.headwater_open_files_max),
            executor=self._executor,
            rng=self._rng,
            settings_for=lambda topic: self._partitions.settings_of(topic),
            recovery=RecoveryThreads(self._static.settings.num_recovery_threads_per_data_dir),
        )
        self._directories = LogManager(self._paths, tools, settings)
        replicas = self._replicas()
        self._partitions = ReplicaManager(
            image, self._static, self._directories, self._clock, replicas
        )
        self._directories.open(self._clock.now_ms())
        if replicas is None:
            self._partitions.reconcile_log_dirs()

    def _bind(self) -> list[Endpoint]:
        """Create the broker and its server, and bind the ports."""
        settings = self._static.settings
        self._controller_access = controller_access = self._new_controller_access()
        producer_ids = ProducerIdManager(controller_access.allocate_producer_ids)
        self._coordinators = new_coordinators(
            self._static,
            clock=self._clock,
            rng=self._rng,
            executor=self._executor,
            timer=self._timer,
            partitions=self._partitions,
            producer_ids=producer_ids,
            image=lambda: controller_access.image,
            inter_broker_client=self._inter_broker_client_or_none(),
        )
        residency, page_cache_read = _page_cache(self._disk, self._paths[0])
        if self._cache_directory is not None:
            self._cache = NodeCache(
                settings,
                self._cache_directory,
                disk=self._disk,
                post=call_soon_from_threads(self._loop),
                steady_ms=self._clock.steady_ms,
            )
            self._resources.callback(self._cache.close)
        self.broker = Broker(
            static=self._static,
            clock=self._clock,
            rng=self._rng,
            executor=self._executor,
            validation_executor=self._validation_executor,
            controller_access=controller_access,
            directories=self._directories,
            partitions=self._partitions,
            ranges=FileRangeReader(
                residency,
                self._cold_read_executor,
                OsColdRead(),
                limits=ColdReadLimits(
                    total_bytes=settings.headwater_cold_read_bytes_max,
                    reads_per_directory=settings.headwater_cold_reads_per_data_dir_max,
                    directory_count=len(self._paths),
                ),
                page_cache_read=page_cache_read,
                cache=None if self._cache is None else self._cache.cache,
            ),
            sessions=FetchSessionCache(
                settings.max_incremental_fetch_session_cache_slots, self._rng
            ),
            timer=self._timer,
            authorizer=self._authorizer,
            metadata=MetadataResponses(),
            producer_ids=producer_ids,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            add_partitions_to_txn_manager=self._coordinators.add_partitions_to_txn_manager,
            markers=self._coordinators.markers,
            call_soon=self._loop.call_soon,
        )
        self._throttling = QuotaManagers(settings, self._clock, self._timer)
        self.dispatch = self._new_dispatch()
        self.server = SocketServer(
            self._loop,
            network_settings(settings),
            self.dispatch,
            now_ms=self._clock.steady_ms(),
            tls=self._tls.by_name,
            authenticators=authenticators(self._logins, self.dispatch),
            protected=self._brokers_listener() if len(self._endpoints) > 1 else None,
        )
        self._cleaner = self._new_cleaner() if settings.log_cleaner_enable else None
        self._dynamic_config = DynamicConfig(self._static, [self._reconfigure])
        self._metrics_port = metrics_port(
            self._loop, settings, self._families, now_ms=self._clock.steady_ms()
        )
        if self._metrics_port is not None:
            self._resources.callback(self._metrics_port.close)
            self._gc_pauses = GcPauses()
            self._resources.callback(self._gc_pauses.close)
            # Only metrics use the samples.
            self._group_lag = self._new_group_lag_sampler()
            self._group_lag.start()
            self._resources.callback(self._group_lag.close)
        return self.server.bind(self._endpoints)

    def _new_dispatch(self) -> Dispatch:
        return Dispatch(self.broker, brokers_listener=self._brokers_listener())

    def _start_background_tasks(self) -> None:
        self._background_tasks = BackgroundTasks(
            self._loop,
            self._clock,
            directories=self._directories,
            partitions=self._partitions,
            coordinators=self._coordinators,
            cleaner=self._cleaner,
            timer=self._timer,
            server=self.server,
            metrics_port=self._metrics_port,
            store_failure=self._store_failure,
            directory_failed=self._directory_failed,
            tick=self._tick,
            sweep=partial(log_omitted_denials, self._authorizer),
            on_failure=self._broken,
        )
        self._background_tasks.start()

    def _changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        """Apply metadata changes to all components."""
        apply_acl_changes(self._authorizer, changes)
        self.broker.deleted_topics.changed(changes)
        self._partitions.changed(image, changes)
        self._coordinators.groups.changed(image, changes)
        self._coordinators.transactions.changed(image)
        if any(isinstance(change, FeatureFinalized) for change in changes):
            self.dispatch.announce(image)
        self._dynamic_config.changed(image, changes)
        if self._throttling.changed(changes):
            self._enforce_quotas()

    def _apply_initial_configs(self, image: ClusterImage) -> None:
        """Apply settings and quotas at startup; `_changed` applies later ones."""
        self._dynamic_config.load(image)
        self._throttling.load(image)
        self._enforce_quotas()

    def _enforce_quotas(self) -> None:
        self.broker.quotas = self._throttling.in_force
        self.server.connection_quota = self._throttling.connections or None

    def _reconfigure(self, settings: BrokerSettings) -> None:
        """Apply dynamic configs to all components."""
        self.server.configure(network_settings(settings))
        self._tls.configure(settings)
        self._directories.configure(settings.storage())
        self._coordinators.add_partitions_to_txn_manager.configure(settings)
        self._partitions.configure(settings)
        if self._cleaner is not None:
            self._cleaner.configure(settings.storage())

    def _controller_families(self) -> Iterable[Family]:
        """Metrics of the controller in this process and of its metadata store."""
        return controller_families(
            ControllerSources(
                image=lambda: self.broker.image,
                is_active=lambda: self.broker.controller_access.controller is not None,
            )
        )

    def _families(self) -> list[Family]:
        """Collect all metrics for a scrape."""
        watched = MetricSources(
            broker=self.broker,
            requests=self.dispatch.counters,
            server=self.server,
            cleaner=self._cleaner,
            flush_times=self._disk.flush_times.histogram,
            logins=self._logins,
        )
        tasks = self._background_tasks
        assert tasks is not None, "the metrics port opens after the background tasks have started"
        return [
            *broker_families(watched),
            *self._controller_families(),
            *lag_families(self._group_lag),
            *quota_families(self._throttling, self.server.throttled_connections),
            *runtime_families(self._gc_pauses, lambda: tasks.loop_delay),
            *process_families(),
        ]

    def _new_group_lag_sampler(self) -> GroupLagSampler:
        return GroupLagSampler(
            self._static.settings,
            groups=self._coordinators.groups,
            partitions=self._partitions,
            image=lambda: self._controller_access.image,
            clock=self._clock,
            timer=self._timer,
            node_id=self._static.node_id,
            inter_broker_client=self._inter_broker_client_or_none(),
        )

    def _new_cleaner(self) -> LogCleaner:
        return LogCleaner(
            self._directories,
            self._static.settings.storage(),
            begin=lambda job: CleanerProcess(self._disk, job),
            executor=self._cleaner_executor,
            rng=self._rng,
        )


def _create_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create log directory {path}: {error.strerror}") from error


def known_cluster_id(disk: Disk, paths: Sequence[Path]) -> str | None:
    """Return the cluster id in the directories' meta.properties, if there is any."""
    for path in paths:
        meta = meta_properties.load(disk, path)
        if meta is not None and meta.cluster_id is not None:
            return meta.cluster_id
    return None


def new_cluster_id(rng: Random) -> str:
    return base64.urlsafe_b64encode(rng.bytes(_CLUSTER_ID_BYTES)).rstrip(b"=").decode("ascii")


def _directory_id(disk: Disk, path: Path) -> str | None:
    meta = meta_properties.load(disk, path)
    return None if meta is None else meta.directory_id


def _page_cache(disk: Disk, directory: Path) -> tuple[Residency, PageCacheRead | None]:
    """Detect how this system reports page cache residency, with a test file."""
    path = directory / meta_properties.FILE_NAME
    file = disk.open(path)
    try:
        return probe_residency(file), probe_page_cache_read(file)
    finally:
        file.close()
