"""Moves of a log between directories while it is used (KIP-113)."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.control_batches import ControlType, build_marker
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.log_manager.log_dir_move_steps import MoveSizes
from headwater.storage.log_manager.log_directory import DirectoryTools, LogDirectory
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.log_lab import START_MS, records

ONE, TWO, THREE = PurePath("/one"), PurePath("/two"), PurePath("/three")
ORDERS = TopicPartition("orders", 0)
ORDERS_ID = TopicId(bytes(range(16)))
SMALL = TopicSettings(segment_bytes=400, file_delete_delay_ms=1_000, retention_ms=-1)
STEPS = MoveSizes(step_bytes=300, unflushed_bytes=700, final_copy_bytes=170)


class Lab:
    """Log directories of a broker, one of which has the log of orders-0."""

    def __init__(
        self,
        *paths: PurePath,
        settings: TopicSettings = SMALL,
        storage: StorageSettings | None = None,
        seed: int = 1,
    ) -> None:
        self.disk = LossyDisk(random.Random(seed))
        self.paths = paths or (ONE, TWO)
        self.settings = settings
        self.storage = storage or StorageSettings()
        self.now_ms = START_MS
        self.executor = HeldExecutor(random.Random(seed))
        self.topic_id: TopicId | None = ORDERS_ID
        self.start()

    def start(self) -> None:
        self.executor.crash()
        tools = DirectoryTools(
            node_id=1,
            cluster_id="here",
            disk=self.disk,
            files=OpenFiles(self.disk, 32),
            executor=self.executor,
            rng=SeededRandom(random.Random(self.disk.step_count)),
            settings_for=lambda _: self.settings,
        )
        self.logs = LogManager(self.paths, tools, self.storage, move_sizes=STEPS)
        self.logs.open(self.now_ms)
        self.logs.adopt_futures(
            lambda name: self.topic_id if name == ORDERS else None, now_ms=self.now_ms
        )

    def create(self) -> UnifiedLog:
        return self.logs.create(ORDERS, ORDERS_ID, now_ms=self.now_ms)

    @property
    def log(self) -> UnifiedLog:
        log = self.logs.log(ORDERS, now_ms=self.now_ms)
        assert log is not None
        return log

    def directory(self, path: PurePath) -> LogDirectory:
        return self.logs.directories[self.paths.index(path)]

    def home(self) -> PurePath:
        return self.logs.directory_of(ORDERS).path

    def append(self, value: bytes, *, epoch: int = 0) -> None:
        batch = bytearray(build_batch(records(value, timestamp=self.now_ms)))
        log = self.log
        log.append_as_leader(batch, leader_epoch=epoch, now_ms=self.now_ms)
        log.raise_high_watermark(log.end_offset)

    def fill(self, count: int = 20) -> None:
        for number in range(count):
            self.append(b"%d" % number * 20)

    def move(self, path: PurePath) -> None:
        self.logs.moves.begin(ORDERS, self.directory(path), ORDERS_ID, now_ms=self.now_ms)

    def tick(self) -> None:
        self.now_ms += 100
        self.logs.tick(self.now_ms)

    def finish(self) -> None:
        """Run the move to its end."""
        for _ in range(200):
            self.tick()
            self.executor.finish()
            if not len(self.logs.moves):
                return
        raise AssertionError("the move does not end")

    def step(self) -> None:
        """Run a few pending jobs."""
        self.tick()
        self.executor.step()

    def close(self) -> None:
        self.executor.finish()
        self.logs.close()

    def folders(self, path: PurePath) -> list[str]:
        """Kinds of directories with the partition's name."""
        found = [name for name in self.disk.names(path) if name.startswith("orders-0")]
        return sorted("live" if name == "orders-0" else name.rsplit("-", 1)[1] for name in found)


def content(log: UnifiedLog) -> bytes:
    """All readable bytes."""
    parts, offset = [], log.log_start_offset
    for _ in range(1_000):
        found = log.read(offset, max_bytes=1 << 20, bound=ReadBound.LOG_END).range
        if found is None:
            break
        parts.append(found.read())
        last = log.local_log.batch_at(offset)
        assert last is not None
        segment = next(each for each in log.local_log.segments if each.log is found.file)
        offset = list(segment.headers_since(offset))[-1].header.next_offset
    return b"".join(parts)


def moved_lab() -> Lab:
    lab = Lab()
    lab.create()
    lab.fill()
    lab.move(TWO)
    return lab


def halfway_lab(*, settings: TopicSettings = SMALL) -> Lab:
    """A move that is partly done and waits because of its throttle."""
    lab = Lab(
        settings=settings,
        storage=StorageSettings(replica_alter_log_dirs_io_max_bytes_per_second=100),
    )
    lab.create()
    lab.fill(40)
    lab.move(TWO)
    for _ in range(30):
        lab.tick()
        lab.executor.finish()
    future = lab.log.future
    assert future is not None
    assert 3 < future.end_offset < 30
    future.flush()
    lab.log.flush()
    lab.executor.finish()
    lab.storage = StorageSettings()
    return lab


def test_moved_log_has_all_records_and_state() -> None:
    lab = moved_lab()
    log, before = lab.log, content(lab.log)
    lab.finish()
    assert lab.home() == TWO
    assert content(log) == before
    assert lab.log is log
    assert (lab.folders(ONE), lab.folders(TWO)) == (["delete"], ["live"])
    lab.fill(3)
    assert log.end_offset == 23


def test_old_directory_is_deleted_after_its_delay() -> None:
    lab = moved_lab()
    lab.finish()
    lab.now_ms += 2_000
    lab.tick()
    lab.executor.finish()
    assert lab.folders(ONE) == []


def test_future_log_has_kafkas_directory_name() -> None:
    lab = moved_lab()
    (name,) = [each for each in lab.disk.names(TWO) if each.startswith("orders")]
    topic, unique = name.removesuffix("-future").rsplit(".", 1)
    assert topic == "orders-0"
    assert len(bytes.fromhex(unique)) == 16


def test_reads_and_writes_during_a_move_are_unaffected() -> None:
    lab = moved_lab()
    for number in range(40):
        lab.append(b"new %d" % number)
        assert lab.log.read(lab.log.end_offset - 1, max_bytes=99, bound=ReadBound.LOG_END).range
        lab.step()
    lab.finish()
    assert lab.home() == TWO
    assert lab.log.end_offset == 60
    lab.append(b"after")
    assert content(lab.log).count(b"new ") == 40


def about_to_swap() -> Lab:
    """A move whose last flush is done, but not yet reported."""
    lab = Lab()
    lab.create()
    lab.append(b"the only one")
    lab.move(TWO)
    lab.tick()
    while lab.executor.waiting_count == 0:
        lab.tick()
    assert lab.executor.work()
    return lab


def test_flush_in_progress_during_the_swap_completes_like_waiting_ones() -> None:
    lab = about_to_swap()
    told: list[StorageError | None] = []
    lab.log.flush(told.append)
    lab.log.flush(told.append)
    lab.log.flush(told.append)
    assert lab.executor.deliver()
    assert lab.home() == TWO
    assert told == [None, None]
    # The first one's files are gone, which is not a failure.
    lab.executor.finish()
    assert told == [None, None, None]
    assert lab.directory(ONE).failure is None


def test_recovery_point_is_kept_by_a_move() -> None:
    lab = about_to_swap()
    lab.append(b"late")
    told: list[StorageError | None] = []
    lab.log.flush(told.append)
    assert lab.executor.work()
    while lab.executor.deliver():
        pass
    assert told == [None]
    assert lab.home() == TWO
    lab.disk.power_cut()
    lab.start()
    assert lab.log.end_offset == 2


def test_checkpoints_move_with_the_log() -> None:
    lab = halfway_lab()
    lab.log.delete_records_below(8)
    lab.directory(ONE).save_log_starts()
    lab.logs.configure(StorageSettings())
    lab.finish()
    assert lab.home() == TWO
    lab.disk.power_cut()
    lab.start()
    assert (lab.log.log_start_offset, lab.log.high_watermark) == (8, 40)
    assert lab.log.recovery_point == 40


def test_waiting_flush_completes_when_the_log_has_moved() -> None:
    lab = moved_lab()
    told: list[StorageError | None] = []
    while lab.home() == ONE:
        lab.append(b"x")
        lab.log.flush(told.append)
        for _ in range(5):
            lab.step()
    asked = lab.log.end_offset - 20
    lab.executor.finish()
    assert told == [None] * asked
    assert lab.log.recovery_point == lab.log.end_offset


def test_producers_transactions_and_epochs_survive_a_move_and_a_restart() -> None:
    lab = Lab()
    log = lab.create()
    gone = build_batch(
        records(b"will be deleted"), producer_id=6, producer_epoch=0, base_sequence=0
    )
    log.append_as_leader(bytearray(gone), leader_epoch=0, now_ms=lab.now_ms)
    for epoch, producer in ((0, 7), (0, 8), (3, 9)):
        batch = bytearray(
            build_batch(
                records(b"in a transaction"),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        log.append_as_leader(batch, leader_epoch=epoch, now_ms=lab.now_ms)
    marker = bytearray(
        build_marker(
            ControlType.ABORT,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=lab.now_ms,
        )
    )
    log.append_as_leader(marker, leader_epoch=3, now_ms=lab.now_ms, origin=AppendOrigin.COORDINATOR)
    # An epoch without records and a deleted record: the log's content shows neither.
    log.begin_epoch(5)
    log.skip_to(9, now_ms=lab.now_ms)
    lab.append(b"the last", epoch=5)
    log.raise_high_watermark(log.end_offset)
    log.delete_records_below(1)
    known = (log.producers.entries(), log.epochs.entries(), log.last_stable_offset)
    lab.move(TWO)
    lab.finish()
    assert (log.producers.entries(), log.epochs.entries(), log.last_stable_offset) == known
    lab.disk.power_cut()
    lab.start()
    log = lab.log
    assert lab.home() == TWO
    assert (log.producers.entries(), log.epochs.entries(), log.last_stable_offset) == known
    assert (log.log_start_offset, log.high_watermark) == (1, 10)
    assert [each.producer_id for each in log.local_log.segments.first.transactions.entries()] == [7]


def test_moving_to_the_current_directory_cancels_a_move() -> None:
    lab = moved_lab()
    lab.step()
    lab.move(ONE)
    lab.executor.finish()
    lab.tick()
    assert len(lab.logs.moves) == 0
    assert (lab.folders(ONE), lab.folders(TWO)) == (["live"], ["delete"])
    assert lab.log.future is None
    lab.fill(2)


def test_move_can_be_redirected() -> None:
    lab = Lab(ONE, TWO, THREE)
    lab.create()
    lab.fill()
    lab.move(TWO)
    lab.step()
    lab.move(THREE)
    lab.finish()
    assert lab.home() == THREE
    assert lab.folders(TWO) == ["delete"]


def test_truncated_records_are_not_in_the_copy() -> None:
    lab = moved_lab()
    while lab.log.future is not None and lab.log.future.end_offset < 12:
        lab.step()
    lab.log.truncate_to(9, now_ms=lab.now_ms)
    assert lab.log.future is not None
    assert lab.log.future.end_offset == 9
    lab.append(b"something else", epoch=1)
    before = content(lab.log)
    lab.finish()
    assert content(lab.log) == before


def test_truncation_inside_a_batch_before_the_copy_ends_both_at_the_same_offset() -> None:
    lab = Lab()
    lab.create()
    lab.append(b"zero")
    values = [b"%d" % number for number in range(1, 6)]
    batch = bytearray(build_batch(records(*values, timestamp=lab.now_ms)))
    lab.log.append_as_leader(batch, leader_epoch=0, now_ms=lab.now_ms)
    lab.fill()
    lab.log.raise_log_start(6)
    lab.move(TWO)
    while lab.log.future is not None and lab.log.future.end_offset < 10:
        lab.step()
    assert lab.log.future is not None
    assert lab.log.future.log_start_offset == 6
    lab.log.truncate_to(4, now_ms=lab.now_ms)
    assert lab.log.end_offset == lab.log.future.end_offset == 1
    lab.finish()
    assert lab.home() == TWO
    assert lab.log.end_offset == 1


def test_full_truncation_applies_to_the_copy() -> None:
    lab = moved_lab()
    lab.step()
    lab.log.start_over(100, now_ms=lab.now_ms)
    lab.append(b"the first", epoch=1)
    lab.finish()
    assert (lab.log.log_start_offset, lab.log.end_offset) == (100, 101)


def test_full_truncation_to_the_log_start_applies_to_the_copy() -> None:
    lab = halfway_lab()
    lab.log.start_over(0, now_ms=lab.now_ms)
    for _ in range(30):
        lab.append(b"something else", epoch=1)
    before = content(lab.log)
    lab.logs.configure(StorageSettings())
    lab.finish()
    assert content(lab.log) == before


def test_moved_log_keeps_a_log_end_after_an_offset_gap() -> None:
    lab = moved_lab()
    lab.log.skip_to(30, now_ms=lab.now_ms)
    lab.finish()
    assert lab.log.end_offset == 30
    lab.append(b"next")
    assert lab.log.end_offset == 31
    lab.close()
    lab.start()
    assert lab.log.end_offset == 31


def test_retention_during_a_move_applies_after_it() -> None:
    lab = moved_lab()
    lab.step()
    lab.log.delete_records_below(15)
    lab.log.apply_retention(lab.now_ms)
    lab.finish()
    assert lab.log.log_start_offset == 15
    lab.close()
    lab.start()
    assert lab.log.log_start_offset == 15


def test_deleting_a_partition_deletes_its_copy() -> None:
    lab = moved_lab()
    lab.step()
    lab.logs.delete(ORDERS, now_ms=lab.now_ms)
    lab.executor.finish()
    lab.tick()
    assert (lab.folders(ONE), lab.folders(TWO)) == (["delete"], ["delete"])


def test_move_is_throttled() -> None:
    lab = halfway_lab()
    future = lab.log.future
    assert future is not None
    # The first ten seconds' worth is not throttled, as in Kafka, plus one step.
    assert 0 < future.size_bytes <= 10 * 100 + 2 * STEPS.step_bytes
    lab.logs.configure(StorageSettings())
    lab.finish()
    assert lab.home() == TWO


def test_move_continues_after_a_clean_restart() -> None:
    lab = halfway_lab()
    assert lab.log.future is not None
    end_offset = lab.log.future.end_offset
    lab.close()
    lab.start()
    assert lab.log.future is not None
    assert lab.log.future.end_offset == end_offset
    assert lab.log.future.recovery_point == end_offset
    before = content(lab.log)
    lab.finish()
    assert lab.home() == TWO
    assert content(lab.log) == before


def test_failed_target_leaves_the_log_in_place() -> None:
    lab = moved_lab()
    lab.step()
    lab.disk.break_under(TWO)
    for _ in range(20):
        lab.step()
    lab.executor.finish()
    lab.tick()
    assert lab.directory(TWO).failure is not None
    assert lab.directory(ONE).failure is None
    assert len(lab.logs.moves) == 0
    lab.fill(2)
    assert lab.home() == ONE


def test_failed_source_takes_the_log_offline_and_the_move_continues_after_repair() -> None:
    lab = halfway_lab()
    lab.disk.break_under(ONE)
    lab.logs.configure(StorageSettings())
    for _ in range(20):
        lab.tick()
        lab.executor.finish()
    assert lab.directory(ONE).failure is not None
    assert lab.directory(TWO).failure is None
    lab.disk.repair(ONE)
    lab.disk.process_crash()
    lab.start()
    lab.finish()
    assert lab.home() == TWO
    assert lab.log.end_offset == 40


def test_copy_of_an_offline_original_is_neither_used_nor_removed() -> None:
    lab = halfway_lab()
    lab.disk.process_crash()
    lab.disk.break_under(ONE)
    lab.start()
    assert ORDERS not in lab.logs
    assert lab.folders(TWO) == ["future"]


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_crash_at_any_step_leaves_exactly_one_log_with_all_flushed_records(
    is_power_cut: bool,
) -> None:
    """The whole move, crashed at each of its disk operations, and then completed."""
    crashes = 0
    for step in range(1, 2_000):
        lab = Lab(seed=step)
        lab.create()
        lab.fill()
        lab.log.delete_records_below(3)
        lab.log.flush()
        lab.executor.finish()
        lab.logs.directories[0].save_log_starts()
        before = content(lab.log)
        lab.disk.crash_at_step(lab.disk.step_count + step)
        try:
            lab.move(TWO)
            lab.finish()
        except PowerCut:
            crashes += 1
        else:
            break
        if is_power_cut:
            lab.disk.power_cut()
        else:
            lab.disk.process_crash()
        lab.start()
        assert lab.folders(ONE).count("live") + lab.folders(TWO).count("live") == 1, step
        assert content(lab.log) == before, step
        lab.append(b"life goes on")
        if len(lab.logs.moves):
            lab.finish()
        lab.append(b"and on")
        lab.close()
        lab.start()
        assert content(lab.log).startswith(before), step
        assert (lab.log.log_start_offset, lab.log.end_offset) == (3, 22), step
    assert crashes > 40


def swap_breaking(lab: Lab, operation: Callable[[], None]) -> None:
    """Run an action just before the copy is renamed."""
    futures = lab.directory(TWO).futures
    promote = futures.promote

    def before(partition: TopicPartition) -> PurePath:
        operation()
        return promote(partition)

    futures.promote = before  # type: ignore[method-assign]


def test_swap_with_unknown_result_is_undone_by_the_next_start() -> None:
    """The copy is renamed, but its disk fails before reporting it: the original continues."""
    lab = moved_lab()
    swap_breaking(lab, lambda: lab.disk.fail_next_sync("/two"))
    for _ in range(100):
        lab.tick()
        lab.executor.finish()
    assert lab.directory(TWO).failure is not None
    assert (lab.folders(ONE), lab.folders(TWO)) == (["live"], ["live"])
    lab.append(b"only the original has this")
    lab.log.flush()
    lab.executor.finish()
    before = content(lab.log)
    lab.disk.process_crash()
    lab.start()
    assert lab.home() == ONE
    assert content(lab.log) == before
    assert lab.folders(TWO) == ["delete"]


def test_obsolete_log_on_a_returning_disk_is_not_used() -> None:
    lab = moved_lab()
    swap_breaking(lab, lambda: lab.disk.break_under(ONE))
    for _ in range(100):
        lab.tick()
        lab.executor.finish()
    assert lab.home() == TWO
    assert lab.directory(ONE).failure is not None
    lab.append(b"only the moved one has this")
    before = content(lab.log)
    lab.disk.repair(ONE)
    lab.disk.process_crash()
    lab.start()
    assert lab.home() == TWO
    assert content(lab.log) == before
    assert lab.folders(ONE) == ["delete"]


def test_copy_that_was_offline_while_its_original_lost_records_is_truncated_or_restarted() -> None:
    """A single broker continues in the same epoch, so epochs do not show the difference."""
    lab = halfway_lab()
    lab.disk.process_crash()
    lab.disk.break_under(TWO)
    lab.start()
    lab.log.truncate_to(2, now_ms=lab.now_ms)
    for _ in range(30):
        lab.append(b"another history")
    lab.executor.finish()
    lab.close()
    lab.disk.repair(TWO)
    lab.start()
    before = content(lab.log)
    lab.finish()
    assert lab.home() == TWO
    assert content(lab.log) == before


def test_copy_of_a_deleted_topic_is_deleted() -> None:
    lab = halfway_lab()
    lab.close()
    lab.disk.remove_tree(ONE / "orders-0")
    lab.topic_id = TopicId(bytes(range(1, 17)))
    lab.start()
    assert lab.folders(TWO) == ["delete"]


def test_copy_becomes_the_log_if_a_power_cut_took_the_original() -> None:
    lab = halfway_lab()
    lab.close()
    lab.disk.remove_tree(ONE / "orders-0")
    lab.start()
    assert lab.home() == TWO
    assert lab.log.end_offset > 0


@pytest.mark.parametrize(
    ("number", "position", "damage"),
    [
        pytest.param(0, 70, b"\xff\xff\xff", id="among the records"),
        pytest.param(0, 8, b"\x00\xff\xff\xff", id="in the length of a segment's first batch"),
        pytest.param(1, 8, b"\x00\xff\xff\xff", id="in the length of another"),
        pytest.param(0, 16, b"\x07", id="in the magic"),
    ],
)
def test_corrupt_batch_cancels_the_move_and_keeps_the_log(
    number: int, position: int, damage: bytes
) -> None:
    lab = moved_lab()
    segment = lab.log.local_log.segments[1]
    batch = list(segment.headers_since(segment.base_offset))[number]
    segment.log.file().write([damage], batch.position + position)
    lab.finish()
    assert lab.home() == ONE
    assert any("stays" in each for each in lab.logs.moves.changed_partitions)
    assert lab.folders(TWO) == ["delete"]
    assert lab.directory(ONE).failure is None
    assert lab.directory(TWO).failure is None


def test_compacted_log_restarts_its_copy_after_a_restart() -> None:
    """It may have been compacted meanwhile, which could bring deleted keys back."""
    lab = halfway_lab()
    lab.settings = dataclasses.replace(SMALL, cleanup_policy=("compact",))
    lab.close()
    lab.start()
    assert lab.log.future is not None
    assert lab.log.future.end_offset == 0


def test_new_partition_is_created_in_its_requested_directory() -> None:
    lab = Lab()
    lab.logs.set_preferred_directory(ORDERS, lab.directory(TWO))
    lab.create()
    assert lab.home() == TWO
