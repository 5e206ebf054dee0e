"""Random operations on a broker's logs, one step at a time.

The steps drive logs through `LogDriver`, which knows what each may leave behind. `PowerCut` and
disk failures are handled in one place.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from headwater.common.exceptions import BatchError, StorageError, TooManyOpenFiles
from headwater.common.ids import TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.fakes.batch_maker import BatchMaker, placed
from tests.simulation.fakes.batches import Batch, Broken
from tests.simulation.fakes.lossy_disk import PowerCut
from tests.simulation.worlds import log_checks, producer_reference
from tests.simulation.worlds.log_driver import LogDriver
from tests.simulation.worlds.log_model import Restart
from tests.simulation.worlds.storage_world import StorageWorld, Tracked

BASE_SETTINGS = TopicSettings(
    segment_bytes=1_500,
    index_interval_bytes=200,
    segment_ms=8_000,
    retention_ms=20_000,
    retention_bytes=6_000,
    file_delete_delay_ms=1_000,
    message_timestamp_after_max_ms=10**9,
)
COMPACTED_SETTINGS = replace(
    BASE_SETTINGS,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=3_000,
)
PARTITIONS = tuple(TopicPartition(topic, 0) for topic in ("orders", "clicks", "accounts"))

Step = Callable[[], str]


class StorageSteps:
    """The run of one seed. `step` does one thing and returns what it did, for the trace."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed} steps")
        self.world = StorageWorld(seed)
        self._maker = BatchMaker(random.Random(f"{seed} batches"))
        self._patience = 0
        self._is_breaking = False
        self._table = self._steps()
        self._weights = [weight for weight, _ in self._table]
        self.world.start()
        self._create()

    def step(self) -> str:
        """One step with its consequences: a crash, a failed disk, a restart."""
        (_, action), *_ = self.rng.choices(self._table, self._weights)
        name = action.__name__.strip("_")
        try:
            said = f"{name} {action()}"
            self._see_failures()
            self._read_cold()
        except PowerCut:
            return f"{name} met a crash; {self._crash_and_restart()}"
        except StorageError as error:
            self._patience = self._patience or self.rng.randint(1, 5)
            said = f"{name} failed: {error}"
        if self._is_failing():
            self._patience -= 1
            if self._patience <= 0:
                self.world.crash(Restart.POWER_CUT)
                return f"{said}; {self._restart()}"
        return said

    def finish(self) -> None:
        """The end of every run: stop, start once more, and check everything."""
        try:
            self.world.disk.crash_at_step(None)
            if self._is_failing():
                self.world.crash(Restart.POWER_CUT)
            else:
                self.world.executor.finish()
                self._see_failures()
                self.world.check_all()
                self.world.stop()
        except (PowerCut, StorageError):
            self.world.crash(Restart.POWER_CUT)
        self.world.restart_until_up(self._any_crash)
        self.world.check_all()

    def _steps(self) -> list[tuple[float, Step]]:
        return [
            (30, self._append),
            (12, self._append_followed),
            (5, self._retry),
            (20, self._work),
            (8, self._flush),
            (10, self._raise_watermark),
            (4, self._roll),
            (5, self._truncate),
            (1, self._start_over),
            (3, self._delete_records),
            (4, self._retain),
            (8, self._tick),
            (3, self._begin_epoch),
            (2, self._configure),
            (4, self._checkpoint),
            (8, self._look),
            (4, self._restart_cleanly),
            (2, self._crash_process),
            (3, self._cut_power),
            (5, self._arm_crash),
            (1, self._break_disk),
            (3, self._run_out_of_descriptors),
            (1.5, self._create),
            (2, self._delete),
            (10, self._clean),
            (6, self._move),
            (15, self._go_on_moving),
        ]

    # Appends.

    def _append(self) -> str:
        driver = self._any_log()
        made = self._maker.make(driver.tracked.producers, self.world.now_ms)
        said = f"{driver.tracked.partition} {made.what}"
        try:
            batch = driver.append(made.content, made.origin)
        except BatchError as refusal:
            return f"{said}: refused, {type(refusal).__name__}"
        return f"{said}: {batch.base}-{batch.next - 1}@{batch.header.leader_epoch}"

    def _append_followed(self) -> str:
        driver = self._any_log()
        tracked, run = driver.tracked, list[Batch]()
        producers, offset = tracked.producers, tracked.model.end
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.1:
                tracked.leader_epoch += 1
            if self.rng.random() < 0.05:
                offset += self.rng.randint(1, 3)
            made = self._maker.make(producers, self.world.now_ms)
            batch = Batch.of(
                placed(made.content, base_offset=offset, leader_epoch=tracked.leader_epoch)
            )
            run.append(batch)
            producers, offset = producer_reference.after(producers, batch), batch.next
        driver.follow(run, torn_bytes=self.rng.choice([0, 0, 7, 80]))
        return f"{tracked.partition} {run[0].base}-{run[-1].next - 1}@{tracked.leader_epoch}"

    def _retry(self) -> str:
        driver = self._any_log()
        tracked = driver.tracked
        choices = [
            (batch, sent)
            for producer in tracked.producers.values()
            for sent in producer.sent
            for batch in tracked.model.batches
            if batch.base == sent.first_offset and not batch.header.attributes & 0x08
        ]
        if not choices:
            return f"{tracked.partition} nothing"
        batch, sent = self.rng.choice(choices)
        try:
            driver.retry(batch, sent)
        except BatchError as refusal:
            return f"{tracked.partition} refused, {type(refusal).__name__}"
        return f"{tracked.partition} {sent.first_offset} again"

    # Truncation and log start.

    def _raise_watermark(self) -> str:
        driver = self._any_log()
        end = driver.log.end_offset
        offset = self.rng.choice([end, self.rng.randint(0, end + 2)])
        return f"{driver.tracked.partition} to {driver.log.raise_high_watermark(offset)}"

    def _roll(self) -> str:
        driver = self._any_log()
        driver.log.roll(self.world.now_ms)
        return f"{driver.tracked.partition} at {driver.log.end_offset}"

    def _truncate(self) -> str:
        driver = self._any_log()
        offset = self._cut_offset(driver.tracked)
        driver.truncate(offset)
        return f"{driver.tracked.partition} to {offset}"

    def _cut_offset(self, tracked: Tracked) -> int:
        """Mostly near the end and between two batches; sometimes anywhere."""
        model = tracked.model
        near = [batch.base for batch in model.batches[-6:] if batch.base >= model.start]
        if near and self.rng.random() < 0.8:
            return self.rng.choice(near)
        return self.rng.randint(max(0, model.start - 30), model.end + 1)

    def _start_over(self) -> str:
        driver = self._any_log()
        model = driver.tracked.model
        offset = self.rng.choice([model.end + self.rng.randint(0, 50), model.start, 0])
        driver.start_over(offset)
        return f"{driver.tracked.partition} at {offset}"

    def _delete_records(self) -> str:
        driver = self._any_log()
        offset = self.rng.randint(0, driver.log.high_watermark)
        driver.delete_records(offset)
        return f"{driver.tracked.partition} below {offset}"

    def _retain(self) -> str:
        driver = self._any_log()
        return f"{driver.tracked.partition} dropped {driver.retain()}"

    def _begin_epoch(self) -> str:
        driver = self._any_log()
        driver.begin_epoch()
        return f"{driver.tracked.partition} {driver.tracked.leader_epoch}"

    # Background tasks.

    def _work(self) -> str:
        executor, rounds = self.world.executor, self.rng.randint(1, 4)
        done = sum(executor.step() for _ in range(rounds))
        if self._is_breaking:
            # After a failed sync the page cache may be wrong, which is unknown until it is
            # reported.
            while executor.deliver():
                pass
        return f"{done} of {rounds}"

    def _flush(self) -> str:
        driver = self._any_log()
        return f"{driver.tracked.partition} up to {driver.flush().end}"

    def _tick(self) -> str:
        world = self.world
        world.now_ms += self.rng.choice([10, 500, 4_000, 30_000])
        drivers = [LogDriver(world, each) for each in self._serving()]
        for driver in drivers:
            driver.expect_retention()
        world.directories.tick(world.now_ms)
        for driver in drivers:
            if world.is_serving(driver.tracked):
                driver.note_retention()
        return f"at {world.now_ms}"

    def _configure(self) -> str:
        driver = self._any_log()
        tracked = driver.tracked
        tracked.settings = replace(
            tracked.settings,
            segment_bytes=self.rng.choice([700, 1_500, 6_000, 20_000]),
            index_interval_bytes=self.rng.choice([0, 200, 1_000]),
            segment_index_bytes=self.rng.choice([48, 10_000]),
            retention_ms=self.rng.choice([-1, 5_000, 20_000]),
            retention_bytes=self.rng.choice([-1, 3_000, 10_000]),
            flush_ms=self.rng.choice([2_000, 10**12]),
            segment_jitter_ms=self.rng.choice([0, 5_000]),
            preallocate=self.rng.choice([True, False]),
            message_timestamp_type=self.rng.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        )
        driver.log.configure(tracked.settings)
        return f"{tracked.partition} segments of {tracked.settings.segment_bytes}"

    def _checkpoint(self) -> str:
        serving = self.world.directories.serving()
        if not serving:
            return "finds no directory left"
        directory = self.rng.choice(serving)
        match self.rng.randint(0, 2):
            case 0:
                directory.save_recovery_points_later()
            case 1:
                directory.save_log_starts_later()
            case _:
                directory.save_high_watermarks_later()
        return directory.path.name

    def _look(self) -> str:
        tracked = self._any_log().tracked
        self.world.check(tracked)
        return str(tracked.partition)

    def _clean(self) -> str:
        self.world.now_ms += 2
        self.world.cleaner.tick(self.world.now_ms)
        if self.world.cleaner.uncleanable:
            raise Broken(f"sound logs were given up: {self.world.cleaner.uncleanable}")
        compacted = [each for each in self._serving() if each.model.is_compacted]
        for tracked in compacted:
            tracked.model.expect(log_checks.look(self.world.log(tracked)))
        return "goes on" if self.world.cleaner.is_busy else "rests"

    def _move(self) -> str:
        """To the other directory, or back to where it is, which cancels a move."""
        tracked = self._any_log().tracked
        directory = self.rng.choice(self.world.directories.serving())
        try:
            self.world.directories.moves.begin(
                tracked.partition, directory, tracked.topic_id, now_ms=self.world.now_ms
            )
        except TooManyOpenFiles:
            return f"{tracked.partition} in vain"
        # As on a follower, snapshots of the copy know only producers with batches in the copy.
        tracked.lives.append((self.world.log(tracked).log_start_offset, {}))
        return f"{tracked.partition} to {directory.path}"

    def _go_on_moving(self) -> str:
        moves = self.world.directories.moves
        moves.tick(self.world.now_ms)
        news, moves.changed_partitions = moves.changed_partitions, []
        return f"{len(moves)} on their way; {', '.join(news)}"

    def _create(self) -> str:
        free = [each for each in PARTITIONS if each not in self.world.tracked]
        if not free:
            return "nothing"
        partition = self.rng.choice(free)
        settings = COMPACTED_SETTINGS if partition.topic == "accounts" else BASE_SETTINGS
        return str(self.world.create(partition, settings).partition)

    def _delete(self) -> str:
        if len(self.world.tracked) < 2:
            return "nothing"
        serving = self._serving()
        if self.rng.random() < 0.5:
            # Then a background task is in progress that may want to handle them.
            for tracked in serving:
                log = self.world.log(tracked)
                log.raise_high_watermark(log.end_offset)
            self._tick()
            serving = self._serving()
        doomed = self.rng.sample(serving, min(len(serving), self.rng.choice([1, 1, 2])))
        self.world.delete(*doomed)
        if self.rng.random() < 0.5:
            self._create()
        return ", ".join(str(tracked.partition) for tracked in doomed)

    # Stops and crashes.

    def _restart_cleanly(self) -> str:
        is_breaking = self._is_breaking
        self.world.stop()
        said = self._restart()
        # A full or failing disk is so for the next process as well.
        self._is_breaking = is_breaking
        return said

    def _crash_process(self) -> str:
        self.world.crash(self._no_milder_than(Restart.PROCESS_CRASH))
        return self._restart()

    def _cut_power(self) -> str:
        self.world.crash(Restart.POWER_CUT)
        return self._restart()

    def _arm_crash(self) -> str:
        step = self.world.disk.step_count + self.rng.randint(1, 40)
        self.world.disk.crash_at_step(step)
        return f"at disk step {step}"

    def _break_disk(self) -> str:
        disk, self._is_breaking = self.world.disk, True
        match self.rng.randint(0, 2):
            case 0:
                disk.fail_next_sync(self.rng.choice(["*", "*.log", "*-0"]))
            case 1:
                disk.fail_next_write(self.rng.choice(["*.log", "*"]))
            case _:
                disk.fill(self.rng.randint(0, 3_000))
        return "is coming"

    def _run_out_of_descriptors(self) -> str:
        """No log is damaged, and no directory goes offline."""
        driver, disk = self._any_log(), self.world.disk
        made = self._maker.make(driver.tracked.producers, self.world.now_ms)
        action: Callable[[], object] = self.rng.choice(
            [
                driver.flush,
                lambda: driver.append(made.content, made.origin),
                lambda: driver.log.roll(self.world.now_ms),
                lambda: self._read_somewhere(driver),
            ]
        )
        files = self.world.files
        for cached in list(files._descriptors.mapped):
            if self.rng.random() < 0.9:
                files._unmap(cached)
        for cached in list(files._descriptors.open):
            if not cached.is_held and self.rng.random() < 0.8:
                cached._close()
        disk.is_out_of_descriptors = True
        try:
            action()
        except TooManyOpenFiles:
            said = "in vain"
        except BatchError as refusal:
            said = f"refused, {type(refusal).__name__}"
        else:
            said = "went on"
        finally:
            disk.is_out_of_descriptors = False
        self.world.check(driver.tracked)
        return f"{driver.tracked.partition} {said}"

    def _read_somewhere(self, driver: LogDriver) -> None:
        offset = self.rng.randint(driver.log.log_start_offset, driver.log.end_offset)
        driver.log.read(offset, max_bytes=1_000, bound=ReadBound.LAST_STABLE)

    def _read_cold(self) -> None:
        """Let consumers read old records through the cache on another disk.

        They draw from a random source of their own and leave the log as it is, so that a seed gives
        the same steps with and without them.
        """
        reads = self.world.cached_reads
        opened = [each for each in self._serving() if each.is_settled]
        if not opened or self._is_breaking:
            return
        log = self.world.log(reads.rng.choice(opened))
        # Few offsets, so that they are read again in later steps.
        first, last = log.log_start_offset, log.end_offset
        offset = reads.rng.choice([first, first, (first + last) // 2])
        for _ in range(reads.rng.randint(1, 4)):
            found = log.read(offset, max_bytes=1_000, bound=ReadBound.LOG_END).range
            if found is not None:
                reads.read(log.local_log, found)

    def _crash_and_restart(self) -> str:
        self.world.crash(self._no_milder_than(self._any_crash()))
        return self._restart()

    def _no_milder_than(self, restart: Restart) -> Restart:
        """A failed sync may have dropped pages, even if it has not been reported yet."""
        return Restart.POWER_CUT if self._is_breaking else restart

    def _restart(self) -> str:
        self._patience = 0
        self._is_breaking = False
        if self.rng.random() < 0.3:
            self.world.disk.crash_at_step(self.rng.randint(1, 60))
        self.world.restart_until_up(self._any_crash)
        for tracked in self.world.tracked.values():
            if self.rng.random() < 0.5:
                tracked.leader_epoch = max(tracked.leader_epoch, tracked.model.latest_epoch) + 1
        return "restarted: " + ", ".join(
            f"{each.partition} {each.model.start} to {each.model.end}"
            for each in self.world.tracked.values()
        )

    def _any_crash(self) -> Restart:
        return self.rng.choice([Restart.POWER_CUT, Restart.PROCESS_CRASH])

    # Failing disks.

    def _serving(self) -> list[Tracked]:
        return [each for each in self.world.tracked.values() if self.world.is_serving(each)]

    def _any_log(self) -> LogDriver:
        serving = self._serving()
        if not serving:
            raise StorageError("no directory is left")
        return LogDriver(self.world, self.rng.choice(serving))

    def _is_failing(self) -> bool:
        return any(each.failure for each in self.world.directories.directories)

    def _see_failures(self) -> None:
        for directory in self.world.directories.directories:
            if directory.failure is not None:
                if not self._is_breaking:
                    raise Broken(f"{directory.path} is given up, and well: {directory.failure}")
                self.world.check_fenced(directory)
                self._patience = self._patience or self.rng.randint(1, 5)
