"""A broker's log directories on a lossy disk: started, crashed and started again.

The shipped directories, logs, checkpoints and clean-shutdown files do all the work. This world
keeps what outlives a process (the disk, the clock, the models of what was guaranteed) and checks
what each start finds.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath

from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.cleaner import cleaner_child
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log.log_loader import LoadReport
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_dir_move_steps import MoveSizes
from headwater.storage.log_manager.log_directory import DirectoryTools, LogDirectory
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.log_manager.partition_directory_names import live_name
from tests.simulation.fakes.batches import Broken
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.inline_cleaner import InlineCleaner
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.worlds import log_checks, producer_reference
from tests.simulation.worlds.cached_reads import CachedReads
from tests.simulation.worlds.log_model import Found, LogModel, Restart
from tests.simulation.worlds.producer_reference import Producers

START_MS = 1_700_000_000_000
PATHS = (PurePath("/disk-a"), PurePath("/disk-b"))
BROKER_SETTINGS = StorageSettings(
    log_retention_check_interval_ms=3_000,
    log_flush_scheduler_interval_ms=1_000,
    log_flush_offset_checkpoint_interval_ms=1_500,
    log_flush_start_offset_checkpoint_interval_ms=1_500,
    replica_high_watermark_checkpoint_interval_ms=1_000,
    log_cleaner_backoff_ms=1,
    log_cleaner_dedupe_buffer_size=1 << 14,
)
# Logs are small here; slow down moves all the same.
SMALL_STEPS = MoveSizes(step_bytes=400, unflushed_bytes=1_500, final_copy_bytes=300)


@dataclass(slots=True)
class Tracked:
    """One partition and all that is known of it without its log."""

    partition: TopicPartition
    settings: TopicSettings
    topic_id: TopicId
    model: LogModel = field(default_factory=LogModel)
    producers: Producers = field(default_factory=dict)
    leader_epoch: int = 0
    is_settled: bool = True
    is_coming: bool = False
    is_going: bool = False
    # Where former lives started, and their producers: a snapshot may come from any of them.
    lives: list[tuple[int, Producers]] = field(default_factory=list)

    def reloaded(self, log: UnifiedLog, found: Found) -> None:
        """The log has read its producers from snapshots and batches: each must be consistent."""
        self.lives = [life for life in self.lives if life[0] <= found.end]
        batches = self.model.batches
        partial = producer_reference.replay(found.batches)
        options = [partial, producer_reference.replay(batches)]
        for offset, known in self.lives:
            later = (batch for batch in batches if batch.base >= offset)
            options.append(producer_reference.replay(later, known))
        live = {entry.producer_id: entry for entry in log.producers.entries()}
        for producer_id in partial:
            if producer_id not in live:
                raise Broken(f"producer {producer_id} of {self.partition} is forgotten")
        # In a compacted log older snapshots refer to batches that are gone by now.
        judged = {} if self.model.is_compacted else live
        for producer_id, entry in judged.items():
            known_entries = [
                option[producer_id].entry(producer_id)
                for option in options
                if producer_id in option
            ]
            if entry not in known_entries:
                raise Broken(f"{self.partition} reloaded {entry}, known are {known_entries}")
        self.producers = producer_reference.adopted(live.values())
        self.lives.append((found.end, self.producers))


class StorageWorld:
    """The directories of one broker over all lives of its process."""

    def __init__(self, seed: int | str, *, path_count: int = 2, max_open_files: int = 20) -> None:
        self.rng = random.Random(f"{seed} world")
        self.now_ms = START_MS
        self.disk = LossyDisk(random.Random(f"{seed} disk"), now_ms=lambda: self.now_ms)
        self.executor = HeldExecutor(random.Random(f"{seed} executor"))
        self.tracked: dict[TopicPartition, Tracked] = {}
        self.restarts: dict[Restart, int] = dict.fromkeys(Restart, 0)
        self.cached_reads = CachedReads(seed)
        self._paths = PATHS[:path_count]
        self._max_open_files = max_open_files
        self._directories: LogManager | None = None
        self._grown_count = 0
        self.files = OpenFiles(self.disk, max_open_files)

    @property
    def directories(self) -> LogManager:
        assert self._directories is not None, "the broker is down"
        return self._directories

    def directory_of(self, tracked: Tracked) -> LogDirectory:
        return self.directories.directory_of(tracked.partition)

    # Starts and stops.

    def start(self) -> None:
        """Start the process, which reads the disk; the caller handles a crash on the way."""
        self.files = OpenFiles(self.disk, self._max_open_files)
        self.cached_reads.start()
        tools = DirectoryTools(
            node_id=1,
            cluster_id="simulated",
            disk=self.disk,
            files=self.files,
            executor=self.executor,
            rng=SeededRandom(self.rng),
            settings_for=self._settings_for,
        )
        # One at a time, as if there were thousands: anything may happen in between.
        self._directories = LogManager(
            self._paths, tools, BROKER_SETTINGS, members_per_tick=1, move_sizes=SMALL_STEPS
        )
        self._directories.open(self.now_ms)
        self.cleaner = LogCleaner(
            self._directories,
            BROKER_SETTINGS,
            begin=lambda job: InlineCleaner(lambda: cleaner_child.run(self.disk, job)),
            executor=self.executor,
            rng=SeededRandom(self.rng),
        )
        self._directories.adopt_futures(self._topic_id_of, now_ms=self.now_ms)
        for tracked in list(self.tracked.values()):
            tracked.is_settled = False
            self._find(tracked)

    def stop(self) -> None:
        """Stop cleanly, and check that nothing is left to do and nothing left behind."""
        for tracked in self.tracked.values():
            if self.is_serving(tracked):
                self.log(tracked)
        if self.rng.random() < 0.5:
            self.cleaner.stop()
        self.executor.finish()
        while self.cleaner.is_busy:
            self.cleaner.tick(self.now_ms)
            self.executor.finish()
        logs = [self.log(tracked) for tracked in self.tracked.values() if self.is_serving(tracked)]
        self._check_holds()
        self.directories.close(broker_epoch=1)
        for log in logs:
            if log.failure is None:
                log_checks.check_sound(self.disk, log.folder)
                log_checks.check_names(self.disk, log, strict=True)
        if any(directory.failure for directory in self.directories.directories):
            self.crash(Restart.POWER_CUT)
            return
        if self.executor.waiting_count:
            raise Broken("a clean stop left work to the executor")
        for tracked in self.tracked.values():
            tracked.model.closed()
        self._end_life(Restart.CLEAN)

    def crash(self, restart: Restart) -> None:
        if restart is Restart.POWER_CUT:
            self.disk.power_cut()
        else:
            self.disk.process_crash()
        self.disk.make_room()
        self._end_life(restart)
        for tracked in self.tracked.values():
            tracked.model.crashed(restart)

    def restart_until_up(self, choose: Callable[[], Restart]) -> None:
        """Start, and after every crash on the way start again."""
        while True:
            try:
                self.start()
                for tracked in list(self.tracked.values()):
                    if self.is_serving(tracked):
                        self.log(tracked)
            except PowerCut:
                self.crash(choose())
            else:
                self.disk.crash_at_step(None)
                return

    def fork(self, seed: int | str) -> StorageWorld:
        """The same disk and guarantees with another random source, with the process ended."""
        twin = StorageWorld(seed, path_count=len(self._paths), max_open_files=self._max_open_files)
        twin.now_ms = self.now_ms
        twin.disk = self.disk.copy(random.Random(f"{seed} disk"))
        twin.tracked = copy.deepcopy(self.tracked)
        return twin

    # Partitions.

    def create(self, partition: TopicPartition, settings: TopicSettings) -> Tracked:
        model = LogModel(is_compacted=settings.is_compacted)
        topic_id = TopicId(self.rng.randbytes(16))
        tracked = Tracked(partition, settings, topic_id, model=model, is_coming=True)
        self.tracked[partition] = tracked
        self.directories.create(partition, topic_id, now_ms=self.now_ms)
        tracked.is_coming = False
        return tracked

    def delete(self, *doomed: Tracked) -> None:
        for tracked in doomed:
            tracked.is_going = True
        self.directories.delete_all([each.partition for each in doomed], now_ms=self.now_ms)
        for tracked in doomed:
            del self.tracked[tracked.partition]

    def is_serving(self, tracked: Tracked) -> bool:
        """Whether it can be used: not if its directory failed, perhaps while it was created."""
        if tracked.is_coming or tracked.is_going:
            return False
        return self.directory_of(tracked).failure is None

    def log(self, tracked: Tracked) -> UnifiedLog:
        """The open log of a partition, checked when it is first opened in a life."""
        log = self.directories.log(tracked.partition, now_ms=self.now_ms)
        if log is None:
            raise Broken(f"{tracked.partition} is gone")
        if not tracked.is_settled:
            self._settle(tracked, log)
        return log

    # Checks.

    def check(self, tracked: Tracked) -> None:
        """All invariants of one open log."""
        log = self.log(tracked)
        found = log_checks.look(log)
        tracked.model.expect(found)
        log_checks.check_log(log, found, self.rng)
        log_checks.check_epochs(log, found, tracked.model.former_starts)
        expected = {key: each.entry(key) for key, each in tracked.producers.items()}
        live = {entry.producer_id: entry for entry in log.producers.entries()}
        if expected != live:
            raise Broken(f"{tracked.partition} knows the producers {live}, expected {expected}")
        if not tracked.model.is_compacted:
            log_checks.check_last_stable(log, tracked.model.batches, tracked.producers)
        log_checks.check_names(self.disk, log, strict=False)
        self._check_open_files()

    def check_all(self) -> None:
        if self.cleaner.uncleanable:
            raise Broken(f"sound logs were given up: {self.cleaner.uncleanable}")
        for tracked in list(self.tracked.values()):
            if self.is_serving(tracked):
                self.check(tracked)

    def check_fenced(self, directory: LogDirectory) -> None:
        """A failed directory rejects everything."""
        if directory.failure is None:
            raise Broken(f"{directory.path} failed and is not fenced")
        for tracked in self.tracked.values():
            if not self.is_serving(tracked) and tracked.partition in directory:
                with suppress(StorageError):
                    self.directories.log(tracked.partition, now_ms=self.now_ms)
                    raise Broken(f"{tracked.partition} is served from a failed directory")

    def _settings_for(self, topic: str) -> TopicSettings:
        for tracked in self.tracked.values():
            if tracked.partition.topic == topic:
                return tracked.settings
        return TopicSettings(file_delete_delay_ms=1_000)

    def _topic_id_of(self, partition: TopicPartition) -> TopicId | None:
        tracked = self.tracked.get(partition)
        return None if tracked is None else tracked.topic_id

    def _find(self, tracked: Tracked) -> None:
        """Compare the partitions that a start found.

        One that was being created or deleted when the crash came may exist or not. Of the others, a
        power cut may remove the ones that were never flushed. They are created again, as by a node
        that knows its topics from elsewhere; their content is checked with the rest.
        """
        partition = tracked.partition
        if partition in self.directories:
            self._check_topic_id(tracked)
            tracked.is_coming = tracked.is_going = False
        elif tracked.is_coming or tracked.is_going:
            del self.tracked[partition]
        elif (
            tracked.model.worst_restart is Restart.POWER_CUT and not tracked.model.is_folder_flushed
        ):
            self.directories.create(partition, tracked.topic_id, now_ms=self.now_ms)
        else:
            raise Broken(f"{live_name(partition)} is gone")

    def _check_topic_id(self, tracked: Tracked) -> None:
        """The topic id may be lost like the folder and is then written again; never wrong."""
        directory = self.directory_of(tracked)
        found = directory.topic_id(tracked.partition)
        model = tracked.model
        is_safe = model.worst_restart is not Restart.POWER_CUT or model.is_folder_flushed
        if found is None and (tracked.is_coming or not is_safe):
            directory.adopt(tracked.partition, tracked.topic_id)
        elif found != tracked.topic_id:
            raise Broken(f"{live_name(tracked.partition)} belongs to {found}")

    def _settle(self, tracked: Tracked, log: UnifiedLog) -> None:
        was_clean = tracked.model.worst_restart is Restart.CLEAN
        found = log_checks.look(log)
        tracked.model.settle(found)
        tracked.is_settled = True
        tracked.reloaded(log, found)
        # One that was created again has none.
        report = self.directory_of(tracked).reports.get(tracked.partition, LoadReport())
        repaired = (report.recovered_segments, report.rebuilt_indexes, report.cut_bytes)
        if was_clean and any(repaired):
            raise Broken(f"{tracked.partition} was repaired after a clean stop: {report}")
        self.check(tracked)

    def _end_life(self, restart: Restart) -> None:
        self.executor.crash()
        self.cached_reads.end(is_power_cut=restart is Restart.POWER_CUT)
        self.restarts[restart] += 1
        self._directories = None

    def _check_holds(self) -> None:
        held = self._held_paths()
        if held:
            raise Broken(f"nothing is under way, and still held are {held}")

    def _check_open_files(self) -> None:
        """Files that had to be held may exceed the limit, and stay until others are opened."""
        grown, self._grown_count = self._grown_count, self.files.over_limit_count
        if self.files.open_count > self._max_open_files and grown == self._grown_count:
            self.files.open(PATHS[0] / "meta.properties").file()
            if self.files.open_count > self._max_open_files and not self._held_paths():
                raise Broken(f"{self.files.open_count} files are open")

    def _held_paths(self) -> list[PurePath]:
        return [cached.path for cached in self.files._descriptors.open if cached.is_held]
