"""One broker, put together and run: the only place where its parts are chosen.

The order of a start matters. The directories are locked before anything in them is read; the logs
are open before the sockets are; the sockets are bound before the broker registers, since a port may
be chosen by the system; and only a registered broker serves. A stop goes the other way.

What differs between a broker that is alone (`lone_node`) and one of several (`cluster_node`) are
the home of the cluster's facts, and who decides; here is what both have in common.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.coordinators import new_coordinators
from headwater.broker.dispatch import Dispatch
from headwater.broker.exposition import Family
from headwater.broker.listeners import (
    advertised,
    advertised_endpoints,
    network_settings,
    own_endpoints,
)
from headwater.broker.live_settings import LiveSettings
from headwater.broker.logins import guards, login_listeners
from headwater.broker.metadata_answers import MetadataAnswers
from headwater.broker.metrics import Watched, broker_families
from headwater.broker.metrics_port import metrics_endpoint, metrics_port
from headwater.broker.process_metrics import process_families
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.broker.quota_metrics import quota_families
from headwater.broker.rights import authorizer_of, know_acls, obey_acls, tell_denials
from headwater.broker.standing import Standing
from headwater.broker.throttling import Throttling
from headwater.broker.tls_listeners import TlsListeners
from headwater.broker.upkeep import Upkeep
from headwater.cluster.colleagues import Colleagues
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, FeatureFinalized
from headwater.cluster.image import ClusterImage
from headwater.cluster.store import Registration
from headwater.model.broker_settings import BrokerSettings
from headwater.model.failures import HeadwaterError, StorageError
from headwater.model.ports import Dice
from headwater.net.endpoint import Endpoint
from headwater.net.host_name import own_host_name
from headwater.net.loop import posting_to
from headwater.net.server import SocketServer
from headwater.net.system import SystemClock, SystemDice
from headwater.replication.deadlines import Deadlines
from headwater.replication.fetch_sessions import FetchSessions
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.replication.replicas import Replicas
from headwater.storage import meta_properties
from headwater.storage.cold_read import OsColdRead
from headwater.storage.compaction.process import CleaningProcess
from headwater.storage.directory_lock import DirectoryLock
from headwater.storage.disk import Disk
from headwater.storage.log_cleaner import LogCleaner
from headwater.storage.log_directories import LogDirectories
from headwater.storage.log_directory import DirectoryTools
from headwater.storage.open_files import OpenFiles
from headwater.storage.os_disk import OsDisk
from headwater.storage.range_reader import RangeReader
from headwater.storage.residency import Glance, Residency, probe_glance, probe_residency
from headwater.storage.thread_executor import ThreadExecutor

_log = logging.getLogger(__name__)

_DRAIN_MS: Final = 5_000
_CLUSTER_ID_BYTES: Final = 16


class Node(ABC):
    """A broker in this process, on the loop that runs. Started once, stopped once."""

    cluster_id: str

    def __init__(self, static: StaticConfig, *, broken: Callable[[str], None]) -> None:
        """`broken` hears of what ends this broker against its will."""
        settings = static.settings
        self._static = static
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._dice = SystemDice()
        self._disk = OsDisk()
        self._deadlines = Deadlines()
        self._paths = [Path(text) for text in settings.log_dirs or (settings.log_dir,)]
        self._endpoints = own_endpoints(settings)
        # What is wrong with an address must be known before a directory is made and written to.
        advertised_endpoints(settings, self._endpoints)
        metrics_endpoint(settings)
        self._tls = TlsListeners(settings, self._endpoints)
        self._logins = login_listeners(
            settings,
            self._endpoints,
            clock=self._clock,
            dice=self._dice,
            deadlines=self._deadlines,
            image=lambda: self._standing.image,
        )
        self._authorizer = authorizer_of(settings)
        self._held = ExitStack()
        self._upkeep: Upkeep | None = None

    async def start(self) -> list[Endpoint]:
        """Serve; the answer is where. What fails raises, and leaves nothing locked.

        A start that is cancelled ends as a stop does, if the broker has come so far.
        """
        try:
            return await self._start()
        except asyncio.CancelledError:
            if self._upkeep is None:
                self._held.close()
            else:
                await self.stop()
            raise
        except BaseException:
            self._held.close()
            raise

    async def stop(self) -> None:
        """Answer what is owed, make everything durable, and say that it is."""
        assert self._upkeep is not None, "stopped before it was started"
        _log.info("stopping")
        await self._take_leave()
        # Members hear that they must look for another coordinator.
        self._coordinators.groups.close()
        self._coordinators.transactions.close()
        # A fetch may have minutes left. Its answer goes out before its connection is closed.
        self._deadlines.expire_all()
        await self.server.stop(drain_ms=_DRAIN_MS)
        self._upkeep.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        # Jobs end before the logs are closed, and their outcomes reach the loop before that too.
        # One of them may want another; it is then done at once, on the loop.
        for executor in (self._cleaner_executor, self._validation_executor, self._executor):
            executor.take_no_more()
            await asyncio.to_thread(executor.close)
        await asyncio.sleep(0)
        self._directories.close(broker_epoch=self._broker_epoch())
        await self._close_store()
        self._held.close()

    # What a broker that is alone and one of several do in their own ways.

    @abstractmethod
    async def _open_store(self) -> ClusterImage:
        """Find the home of the cluster's facts and the cluster's id; what is known at first."""

    @abstractmethod
    def _new_standing(self) -> Standing:
        """How this broker stands to its cluster."""

    @abstractmethod
    async def _join(self, registration: Registration) -> None:
        """Be there, and know what there is to serve. The sockets are bound, and wait."""

    @abstractmethod
    async def _become_informed(self) -> None:
        """The sockets are open: wait until clients hear from here what there is."""

    @abstractmethod
    def _broker_epoch(self) -> int:
        """That of the registration."""

    @abstractmethod
    async def _close_store(self) -> None:
        """Everything is durable: end the session."""

    @abstractmethod
    async def _take_leave(self) -> None:
        """Before anything stops: hand over what others can serve."""

    @abstractmethod
    def _replicas(self) -> Replicas | None:
        """What is done for partitions that others hold too; None if nobody can."""

    @abstractmethod
    def _colleagues_or_none(self) -> Colleagues | None:
        """The other brokers, if there can be any."""

    @abstractmethod
    def _brokers_listener(self) -> str | None:
        """Where other brokers speak to this one, if there can be any."""

    @abstractmethod
    def _store_failure(self) -> HeadwaterError | None:
        """Why the cluster's facts cannot be written any more."""

    @abstractmethod
    def _directory_failed(self) -> None:
        """A log directory is offline."""

    @abstractmethod
    def _tick(self) -> None:
        """A few times a second."""

    # What they have in common.

    async def _start(self) -> list[Endpoint]:
        for path in self._paths:
            _make(path)
            self._held.enter_context(DirectoryLock(path))
        self._executor = ThreadExecutor(
            self._static.settings.background_threads, posting_to(self._loop)
        )
        self._held.callback(self._executor.close)
        self._validation_executor = ThreadExecutor(
            self._static.settings.headwater_record_validation_threads,
            posting_to(self._loop),
            name="headwater-validation",
        )
        self._held.callback(self._validation_executor.close)
        # A cleaning may take hours.
        self._cleaner_executor = ThreadExecutor(1, posting_to(self._loop))
        self._held.callback(self._cleaner_executor.close)
        image = await self._open_store()
        know_acls(self._authorizer, image)
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
        await self._become_informed()
        if self._metrics_port is not None:
            self._metrics_port.start()
            _log.info("metrics are at http://%s/metrics", self._metrics_port.endpoint.address)
        return bound

    def _open_logs(self, image: ClusterImage) -> None:
        settings = self._static.settings.storage()
        tools = DirectoryTools(
            node_id=self._static.node_id,
            cluster_id=self.cluster_id,
            disk=self._disk,
            files=OpenFiles(self._disk, settings.headwater_open_files_max),
            executor=self._executor,
            dice=self._dice,
            settings_for=lambda topic: self._partitions.settings_of(topic),
        )
        self._directories = LogDirectories(self._paths, tools, settings)
        replicas = self._replicas()
        self._partitions = HostedPartitions(
            image, self._static, self._directories, self._clock, replicas
        )
        self._directories.open(self._clock.now_ms())
        if replicas is None:
            self._partitions.settle()

    def _bind(self) -> list[Endpoint]:
        """Make the broker and its server, and take the ports."""
        settings = self._static.settings
        self._standing = standing = self._new_standing()
        producer_ids = ProducerIdBlock(standing.allocate_producer_ids)
        self._coordinators = new_coordinators(
            self._static,
            clock=self._clock,
            dice=self._dice,
            executor=self._executor,
            deadlines=self._deadlines,
            partitions=self._partitions,
            producer_ids=producer_ids,
            image=lambda: standing.image,
            colleagues=self._colleagues_or_none(),
        )
        residency, glance = _page_cache(self._disk, self._paths[0])
        self.broker = Broker(
            static=self._static,
            clock=self._clock,
            dice=self._dice,
            executor=self._executor,
            validation_executor=self._validation_executor,
            standing=standing,
            directories=self._directories,
            partitions=self._partitions,
            ranges=RangeReader(
                residency,
                self._executor,
                OsColdRead(),
                cold_limit_bytes=settings.headwater_cold_read_bytes_max,
                glance=glance,
            ),
            sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots, self._dice),
            deadlines=self._deadlines,
            authorizer=self._authorizer,
            metadata=MetadataAnswers(),
            producer_ids=producer_ids,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            questions=self._coordinators.questions,
            markers=self._coordinators.markers,
            soon=self._loop.call_soon,
        )
        self._throttling = Throttling(settings, self._clock, self._deadlines)
        self.dispatch = Dispatch(self.broker, brokers_listener=self._brokers_listener())
        self.server = SocketServer(
            self._loop,
            network_settings(settings),
            self.dispatch,
            now_ms=self._clock.steady_ms(),
            tls=self._tls.by_name,
            guards=guards(self._logins, self.dispatch),
            protected=self._brokers_listener() if len(self._endpoints) > 1 else None,
        )
        self._cleaner = self._new_cleaner() if settings.log_cleaner_enable else None
        self._live_settings = LiveSettings(self._static, [self._obey])
        self._metrics_port = metrics_port(
            self._loop, settings, self._families, now_ms=self._clock.steady_ms()
        )
        if self._metrics_port is not None:
            self._held.callback(self._metrics_port.close)
        return self.server.bind(self._endpoints)

    def _keep_house(self) -> None:
        """Do from now on what goes by the clock."""
        self._upkeep = Upkeep(
            self._loop,
            self._clock,
            directories=self._directories,
            partitions=self._partitions,
            coordinators=self._coordinators,
            cleaner=self._cleaner,
            deadlines=self._deadlines,
            server=self.server,
            metrics_port=self._metrics_port,
            store_failure=self._store_failure,
            directory_failed=self._directory_failed,
            tick=self._tick,
            sweep=partial(tell_denials, self._authorizer),
            broken=self._broken,
        )
        self._upkeep.start()

    def _changed(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        """The cluster has agreed on something."""
        obey_acls(self._authorizer, facts)
        self.broker.deleted_topics.changed(facts)
        self._partitions.changed(image, facts)
        self._coordinators.groups.changed(image, facts)
        self._coordinators.transactions.changed(image)
        if any(isinstance(fact, FeatureFinalized) for fact in facts):
            self.dispatch.announce(image)
        self._live_settings.changed(image, facts)
        if self._throttling.changed(facts):
            self._put_quotas_in_force()

    def _take_up_duties(self, image: ClusterImage) -> None:
        """Settings and quotas as they are at the start; `_changed` tells of all later ones."""
        self._live_settings.tell(image)
        self._throttling.tell(image)
        self._put_quotas_in_force()

    def _put_quotas_in_force(self) -> None:
        self.broker.quotas = self._throttling.in_force
        self.server.connection_quota = self._throttling.connections or None

    def _obey(self, settings: BrokerSettings) -> None:
        """Take settings that may have changed."""
        self.server.configure(network_settings(settings))
        self._tls.configure(settings)
        self._directories.configure(settings.storage())
        self._coordinators.questions.configure(settings)
        self._partitions.configure(settings)
        if self._cleaner is not None:
            self._cleaner.configure(settings.storage())

    def _families(self) -> list[Family]:
        """What is told at a scrape."""
        watched = Watched(
            broker=self.broker,
            requests=self.dispatch.counters,
            server=self.server,
            cleaner=self._cleaner,
            logins=self._logins,
        )
        of_quotas = quota_families(self._throttling, self.server.held_off)
        return [*broker_families(watched), *of_quotas, *process_families()]

    def _new_cleaner(self) -> LogCleaner:
        return LogCleaner(
            self._directories,
            self._static.settings.storage(),
            begin=lambda job: CleaningProcess(self._disk, job),
            executor=self._cleaner_executor,
            dice=self._dice,
        )


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the log directory {path}: {error.strerror}") from error


def known_cluster_id(disk: Disk, paths: Sequence[Path]) -> str | None:
    """Which cluster the directories belong to, if any of them has been used before."""
    for path in paths:
        meta = meta_properties.load(disk, path)
        if meta is not None and meta.cluster_id is not None:
            return meta.cluster_id
    return None


def fresh_cluster_id(dice: Dice) -> str:
    return base64.urlsafe_b64encode(dice.bytes(_CLUSTER_ID_BYTES)).rstrip(b"=").decode("ascii")


def _directory_id(disk: Disk, path: Path) -> str | None:
    meta = meta_properties.load(disk, path)
    return None if meta is None else meta.directory_id


def _page_cache(disk: Disk, directory: Path) -> tuple[Residency, Glance | None]:
    """How this system tells what is in the page cache, tried on a file of the data directory."""
    path = directory / meta_properties.FILE_NAME
    file = disk.open(path)
    try:
        return probe_residency(file), probe_glance(file)
    finally:
        file.close()
