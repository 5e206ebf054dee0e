"""One broker, put together and run: the only place where its parts are chosen.

The order of a start matters. The directories are locked before anything in them is read; the logs
are open before the sockets are; the sockets are bound before the broker registers, since a port may
be chosen by the system; and only a registered broker serves. A stop goes the other way.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from headwater.broker.announcement import announcement
from headwater.broker.broker import Broker
from headwater.broker.dispatch import Dispatch
from headwater.broker.exposition import Family
from headwater.broker.group_coordinator import GroupCoordinator
from headwater.broker.listeners import advertised, network_settings, own_endpoints
from headwater.broker.live_settings import LiveSettings
from headwater.broker.marker_sending import MarkerSending
from headwater.broker.marker_writing import MarkerWriting
from headwater.broker.metadata_answers import MetadataAnswers
from headwater.broker.metrics import Watched, broker_families
from headwater.broker.metrics_port import metrics_port
from headwater.broker.process_metrics import process_families
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.broker.system import SystemClock, SystemDice
from headwater.broker.transaction_coordinator import TransactionCoordinator
from headwater.broker.transaction_questions import TransactionQuestions
from headwater.broker.upkeep import Upkeep
from headwater.cluster import local
from headwater.cluster.adoption import adopt
from headwater.cluster.controller import Controller
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, FeatureFinalized
from headwater.cluster.features import of_new_cluster
from headwater.cluster.image import ClusterImage, Version
from headwater.cluster.leadership import renew_leaderships
from headwater.cluster.local import LocalStore
from headwater.cluster.store import Registration
from headwater.model.broker_settings import BrokerSettings
from headwater.model.failures import StorageError
from headwater.model.ports import Dice
from headwater.net.endpoint import Endpoint
from headwater.net.host_name import own_host_name
from headwater.net.loop import posting_to
from headwater.net.server import SocketServer
from headwater.replication.deadlines import Deadlines
from headwater.replication.fetch_sessions import FetchSessions
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.security.authorization import AllowAll
from headwater.storage import meta_properties
from headwater.storage.cold_read import OsColdRead
from headwater.storage.compaction.process import CleaningProcess
from headwater.storage.directory_lock import DirectoryLock
from headwater.storage.disk import Disk
from headwater.storage.folder_survey import survey
from headwater.storage.log_cleaner import LogCleaner
from headwater.storage.log_directories import LogDirectories
from headwater.storage.log_directory import DirectoryTools
from headwater.storage.open_files import OpenFiles
from headwater.storage.os_disk import OsDisk
from headwater.storage.range_reader import RangeReader
from headwater.storage.residency import Residency, probe_residency
from headwater.storage.thread_executor import ThreadExecutor

_log = logging.getLogger(__name__)

_DRAIN_MS: Final = 5_000
_CLUSTER_ID_BYTES: Final = 16


class Node:
    """A broker in this process, on the loop that runs. Started once, stopped once."""

    def __init__(self, static: StaticConfig, *, broken: Callable[[str], None]) -> None:
        """`broken` hears of what ends this broker against its will."""
        settings = static.settings
        self._static = static
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._dice = SystemDice()
        self._disk = OsDisk()
        self._paths = [Path(text) for text in settings.log_dirs or (settings.log_dir,)]
        self._endpoints = own_endpoints(settings)
        self._held = ExitStack()
        self._upkeep: Upkeep | None = None

    async def start(self) -> list[Endpoint]:
        """Serve; the answer is where. What fails raises, and leaves nothing locked."""
        try:
            return await self._start()
        except BaseException:
            self._held.close()
            raise

    async def stop(self) -> None:
        """Answer what is owed, make everything durable, and say that it is."""
        assert self._upkeep is not None, "stopped before it was started"
        _log.info("stopping")
        # Members hear that they must look for another coordinator.
        self._groups.close()
        self._transactions.close()
        # A fetch may have minutes left. Its answer goes out before its connection is closed.
        self.broker.deadlines.expire_all()
        await self.server.stop(drain_ms=_DRAIN_MS)
        self._upkeep.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        # Jobs end before the logs are closed, and their outcomes reach the loop before that too.
        for executor in (self._cleaner_executor, self._executor):
            await asyncio.to_thread(executor.close)
        await asyncio.sleep(0)
        own = self.broker.image.brokers[self._static.node_id]
        self._directories.close(broker_epoch=own.epoch)
        self._store.close()
        self._held.close()

    async def _start(self) -> list[Endpoint]:
        for path in self._paths:
            _make(path)
            self._held.enter_context(DirectoryLock(path))
        self._executor = ThreadExecutor(
            self._static.settings.background_threads, posting_to(self._loop)
        )
        self._held.callback(self._executor.close)
        # A cleaning may take hours.
        self._cleaner_executor = ThreadExecutor(1, posting_to(self._loop))
        self._held.callback(self._cleaner_executor.close)
        known_id = _known_cluster_id(self._disk, self._paths)
        self.cluster_id = known_id or _fresh_cluster_id(self._dice)
        self._store = LocalStore.open(
            self._disk,
            self._executor,
            self._paths[0],
            cluster_id=self.cluster_id,
            first=[*of_new_cluster(), *self._adopted()],
        )
        self._open_logs(await self._read_image())
        bound = self._bind()
        await self._join(bound)
        self.server.start()
        if self._metrics_port is not None:
            self._metrics_port.start()
            _log.info("metrics are at http://%s/metrics", self._metrics_port.endpoint.address)
        return bound

    def _adopted(self) -> list[Fact]:
        """What a first start makes of logs that are there already."""
        if self._disk.status(self._paths[0] / local.FILE_NAME) is not None:
            return []
        empty = ClusterImage(cluster_id=self.cluster_id, is_standalone=True)
        found = survey(self._disk, self._paths)
        if found:
            _log.warning(
                "%d partitions of another cluster are taken over; their topics keep everything "
                "until retention is set for them",
                len(found),
            )
        return adopt(empty, found, self._static.settings, self._dice)

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
        self._partitions = HostedPartitions(image, self._static, self._directories, self._clock)
        self._directories.open(self._clock.now_ms())
        self._partitions.settle()

    def _bind(self) -> list[Endpoint]:
        """Make the broker and its server, and take the ports."""
        settings = self._static.settings
        self._controller = Controller(
            self._store,
            ClusterImage(cluster_id=self.cluster_id),
            self._changed,
        )
        deadlines = Deadlines()
        markers = self._make_coordinators(deadlines)
        self.broker = Broker(
            static=self._static,
            clock=self._clock,
            dice=self._dice,
            executor=self._executor,
            controller=self._controller,
            directories=self._directories,
            partitions=self._partitions,
            ranges=RangeReader(
                _residency(self._disk, self._paths[0]),
                self._executor,
                OsColdRead(),
                cold_limit_bytes=settings.headwater_cold_read_bytes_max,
            ),
            sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots, self._dice),
            deadlines=deadlines,
            authorizer=AllowAll(),
            metadata=MetadataAnswers(),
            producer_ids=self._producer_ids,
            groups=self._groups,
            transactions=self._transactions,
            questions=self._questions,
            markers=markers,
            soon=self._loop.call_soon,
        )
        unstable = settings.unstable_api_versions_enable
        self.dispatch = Dispatch(
            self.broker,
            announcement(self._controller.image, unstable=unstable),
            unstable=unstable,
        )
        self.server = SocketServer(
            self._loop,
            network_settings(settings),
            self.dispatch,
            now_ms=self._clock.now_ms(),
        )
        self._cleaner = self._new_cleaner() if settings.log_cleaner_enable else None
        self._live_settings = LiveSettings(self._static, [self._obey])
        self._metrics_port = metrics_port(
            self._loop, settings, self._families, now_ms=self._clock.now_ms()
        )
        if self._metrics_port is not None:
            self._held.callback(self._metrics_port.close)
        return self.server.bind(self._endpoints)

    def _make_coordinators(self, deadlines: Deadlines) -> MarkerWriting:
        """Groups, transactions, and what writes their markers."""
        settings = self._static.settings
        self._groups = GroupCoordinator(
            self._static,
            clock=self._clock,
            dice=self._dice,
            executor=self._executor,
            deadlines=deadlines,
            partitions=self._partitions,
            image=lambda: self._controller.image,
        )
        self._producer_ids = ProducerIdBlock(self._static.node_id, self._controller)
        markers = MarkerWriting(
            partitions=self._partitions,
            groups=self._groups,
            clock=self._clock,
            deadlines=deadlines,
            timeout_ms=settings.request_timeout_ms,
        )
        self._transactions = TransactionCoordinator(
            self._static,
            clock=self._clock,
            executor=self._executor,
            deadlines=deadlines,
            partitions=self._partitions,
            image=lambda: self._controller.image,
            producer_ids=self._producer_ids,
            markers=MarkerSending(
                node_id=self._static.node_id,
                writing=markers,
                image=lambda: self._controller.image,
                clock=self._clock,
                colleagues=None,
                timeout_ms=settings.request_timeout_ms,
            ),
        )
        self._questions = TransactionQuestions(
            self._static,
            coordinator=self._transactions,
            clock=self._clock,
            deadlines=deadlines,
            partitions=self._partitions,
            image=lambda: self._controller.image,
        )
        return markers

    async def _join(self, bound: Sequence[Endpoint]) -> None:
        """Be there, decide for the cluster, and keep house from now on."""
        settings = self._static.settings
        registration = Registration(
            node_id=self._static.node_id,
            rack=settings.broker_rack,
            endpoints=advertised(settings, bound, own_host_name),
        )
        registered: asyncio.Future[int] = self._loop.create_future()
        self._store.register(
            registration, then=registered.set_result, otherwise=registered.set_exception
        )
        await registered
        elected: asyncio.Future[Version] = self._loop.create_future()
        self._store.become_controller(
            self._static.node_id, then=elected.set_result, otherwise=elected.set_exception
        )
        await elected
        image = await self._read_image()
        self._controller.take_over(image)
        self._partitions.changed(image, ())
        self._live_settings.tell(image)
        if not all(each.was_clean for each in self._directories.serving()):
            await self._renew_leaderships()
        self._groups.changed(self._controller.image, ())
        self._transactions.changed(self._controller.image)
        self._announce()
        self._upkeep = Upkeep(
            self._loop,
            self._clock,
            directories=self._directories,
            partitions=self._partitions,
            groups=self._groups,
            transactions=self._transactions,
            questions=self._questions,
            cleaner=self._cleaner,
            deadlines=self.broker.deadlines,
            server=self.server,
            metrics_port=self._metrics_port,
            store=self._store,
            broken=self._broken,
        )
        self._upkeep.start()

    def _changed(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        """The cluster has agreed on something."""
        self._partitions.changed(image, facts)
        self._groups.changed(image, facts)
        self._transactions.changed(image)
        if any(isinstance(fact, FeatureFinalized) for fact in facts):
            self._announce()
        self._live_settings.changed(image, facts)

    def _announce(self) -> None:
        unstable = self._static.settings.unstable_api_versions_enable
        self.dispatch.announce(announcement(self._controller.image, unstable=unstable))

    def _obey(self, settings: BrokerSettings) -> None:
        """Take settings that may have changed."""
        self.server.configure(network_settings(settings))
        self._directories.configure(settings.storage())
        self._questions.configure(settings)
        if self._cleaner is not None:
            self._cleaner.configure(settings.storage())

    async def _renew_leaderships(self) -> None:
        renewed: asyncio.Future[None] = self._loop.create_future()
        self._controller.submit(
            partial(renew_leaderships, node_id=self._static.node_id),
            then=renewed.set_result,
            otherwise=renewed.set_exception,
        )
        await renewed

    async def _read_image(self) -> ClusterImage:
        found: asyncio.Future[ClusterImage] = self._loop.create_future()
        self._store.read(then=found.set_result, otherwise=found.set_exception)
        return await found

    def _families(self) -> list[Family]:
        """What is told at a scrape."""
        watched = Watched(
            broker=self.broker,
            requests=self.dispatch.counters,
            server=self.server,
            cleaner=self._cleaner,
        )
        return [*broker_families(watched), *process_families()]

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


def _known_cluster_id(disk: Disk, paths: Sequence[Path]) -> str | None:
    """Which cluster the directories belong to, if any of them has been used before."""
    for path in paths:
        meta = meta_properties.load(disk, path)
        if meta is not None and meta.cluster_id is not None:
            return meta.cluster_id
    return LocalStore.cluster_id_in(disk, paths[0])


def _fresh_cluster_id(dice: Dice) -> str:
    return base64.urlsafe_b64encode(dice.bytes(_CLUSTER_ID_BYTES)).rstrip(b"=").decode("ascii")


def _residency(disk: Disk, directory: Path) -> Residency:
    """How this system tells what is in the page cache, tried on a file of the data directory."""
    path = directory / meta_properties.FILE_NAME
    file = disk.open(path)
    try:
        return probe_residency(file)
    finally:
        file.close()
