"""LogCleaner: scheduling in the broker and handling of the results."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import PurePath

import pytest

from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import MAGIC_POSITION, read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import (
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    FailureKind,
)
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log.segment_files import LOG, path_of
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.producer_state import producer_snapshot
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.inline_cleaner import InlineCleaner
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.log_lab import START_MS

ROOT = PurePath("/data")
COMPACTED = TopicSettings(
    cleanup_policy=("compact",),
    segment_bytes=600,
    min_cleanable_dirty_ratio=0.1,
    file_delete_delay_ms=1000,
)
SETTINGS = StorageSettings(log_cleaner_dedupe_buffer_size=1 << 16)


class Workshop:
    """Directory with one compacted log, and a cleaner whose jobs run when the test says so."""

    def __init__(
        self, settings: TopicSettings = COMPACTED, *, storage: StorageSettings = SETTINGS
    ) -> None:
        self.storage = storage
        self.rng = random.Random(3)
        self.disk = LossyDisk(self.rng)
        self.settings = settings
        self.now_ms = START_MS
        self.executor = HeldExecutor(self.rng)
        self.run: Callable[[CleaningJob], CleaningResult | CleaningFailure] = lambda job: clean(
            self.disk, job
        )
        self.cleanings: list[InlineCleaner] = []
        self.open()
        self.log = self.create("accounts")

    def create(self, topic: str) -> UnifiedLog:
        return self.logs.create(TopicPartition(topic, 0), TopicId(bytes(16)), now_ms=self.now_ms)

    def open(self) -> None:
        tools = DirectoryTools(
            node_id=1,
            cluster_id="here",
            disk=self.disk,
            files=OpenFiles(self.disk, 16),
            executor=InlineExecutor(),
            rng=SeededRandom(self.rng),
            settings_for=lambda _: self.settings,
        )
        self.logs = LogManager([ROOT], tools, self.storage)
        self.logs.open(self.now_ms)
        self.cleaner = LogCleaner(
            self.logs,
            self.storage,
            begin=self.begin,
            executor=self.executor,
            rng=SeededRandom(self.rng),
        )

    def begin(self, job: CleaningJob) -> InlineCleaner:
        self.cleanings.append(InlineCleaner(lambda: self.run(job)))
        return self.cleanings[-1]

    def put(self, key: bytes, value: bytes | None) -> None:
        record = Record(key=key, value=value, timestamp=self.now_ms)
        batch = bytearray(build_batch([record]))
        self.log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms)
        self.log.raise_high_watermark(self.log.end_offset)

    def fill(self, count: int = 40) -> None:
        for number in range(count):
            self.put(b"key-%d" % (number % 4), b"value-%d" % number)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.cleaner.tick(self.now_ms)

    def compact(self) -> None:
        """Run one complete cleaning and swap in its segments."""
        self.tick()
        self.executor.finish()
        while self.cleaner.is_busy:
            self.tick()


def contents(log: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = log.log_start_offset
    while True:
        read = log.read(offset, max_bytes=1, bound=ReadBound.LOG_END)
        if read.range is None:
            return found
        batch = read.range.read()
        header = read_header(batch)
        found += [(each.offset or 0, each.key, each.value) for each in read_records(batch, header)]
        offset = header.next_offset


def test_dirty_log_is_cleaned_and_readers_find_the_newest_of_each_key() -> None:
    """CP-2, CP-3, CP-7"""
    workshop = Workshop()
    workshop.fill()
    before = contents(workshop.log)
    active = workshop.log.local_log.segments.active.base_offset
    workshop.compact()
    after = contents(workshop.log)
    newest = {key: offset for offset, key, _ in before if offset < active}
    assert [each for each in after if each[0] < active] == [
        each for each in before if each[0] < active and newest[each[1]] == each[0]
    ]
    assert [each for each in after if each[0] >= active] == [
        each for each in before if each[0] >= active
    ]
    assert workshop.log.first_dirty_offset == active
    assert workshop.log.size_bytes < 40 * 80
    workshop.fill(4)
    assert workshop.log.end_offset == 44


def test_producer_snapshots_of_merged_segments_are_deleted() -> None:
    """As in Kafka; otherwise they would accumulate in a long-lived compacted topic."""
    workshop = Workshop()
    workshop.fill()
    workshop.compact()
    count = len(workshop.log.local_log.segments)
    workshop.fill(8)
    workshop.compact()
    base_offsets = [segment.base_offset for segment in workshop.log.local_log.segments]
    assert len(base_offsets) < count, "small segments are merged only when they are cleaned again"
    snapshots = producer_snapshot.list_offsets(workshop.disk, workshop.log.folder)
    assert snapshots == base_offsets[1:]


def test_clean_log_is_skipped_and_checked_again_later() -> None:
    """CP-2"""
    workshop = Workshop()
    workshop.fill()
    workshop.compact()
    workshop.tick()
    assert not workshop.cleaner.is_busy
    workshop.fill()
    workshop.tick()
    assert not workshop.cleaner.is_busy
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.tick()
    assert workshop.cleaner.is_busy


def test_first_dirty_offset_survives_a_restart() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.compact()
    expected = contents(workshop.log)
    first_dirty = workshop.log.first_dirty_offset
    workshop.logs.close()
    workshop.disk.process_crash()
    workshop.open()
    log = workshop.logs.log(TopicPartition("accounts", 0), now_ms=workshop.now_ms)
    assert log is not None
    assert log.first_dirty_offset == first_dirty
    assert contents(log) == expected


def test_replaced_files_are_deleted_after_file_delete_delay() -> None:
    """RT-5"""
    workshop = Workshop()
    workshop.fill()
    workshop.compact()
    folder = workshop.log.folder
    assert any(name.endswith(".deleted") for name in workshop.disk.names(folder))
    workshop.logs.tick(workshop.now_ms + 1000)
    assert not any(
        name.endswith((".deleted", ".cleaned", ".swap")) for name in workshop.disk.names(folder)
    )


@pytest.mark.parametrize("what", ["truncation", "retention", "deletion", "move"])
def test_result_is_discarded_if_its_sources_changed_meanwhile(what: str) -> None:
    workshop = Workshop(dataclasses.replace(COMPACTED, cleanup_policy=("compact", "delete")))
    workshop.fill()
    workshop.tick()
    workshop.executor.finish()
    log = workshop.log
    match what:
        case "truncation":
            log.truncate_to(20, now_ms=workshop.now_ms)
        case "retention":
            log.delete_records_below(20)
            log.apply_retention(workshop.now_ms)
        case "move":
            log.future = workshop.create("copy")
        case _:
            workshop.logs.delete(log.partition, now_ms=workshop.now_ms)
    expected = [] if what == "deletion" else contents(log)
    workshop.tick()
    assert not workshop.cleaner.is_busy
    if what != "deletion":
        assert contents(log) == expected
        assert not any(name.endswith(".cleaned") for name in workshop.disk.names(log.folder))
        assert log.first_dirty_offset is None
    assert workshop.logs.directories[0].failure is None


def test_log_that_moves_to_another_directory_is_cleaned_afterwards() -> None:
    """Otherwise the copy could have an old record and lack its tombstone."""
    workshop = Workshop()
    workshop.fill()
    workshop.log.future = workshop.create("copy")
    workshop.tick()
    assert not workshop.cleaner.is_busy
    workshop.log.future = None
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.compact()
    assert workshop.log.first_dirty_offset is not None


def test_corrupt_log_is_not_cleaned_again_and_others_are() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.run = lambda job: CleaningFailure(FailureKind.CORRUPT, f"bad batch in {job.folder}")
    expected = contents(workshop.log)
    workshop.compact()
    assert list(workshop.cleaner.uncleanable) == [workshop.log.partition]
    assert contents(workshop.log) == expected
    workshop.tick()
    assert not workshop.cleaner.is_busy


def test_crashed_cleaner_is_retried_after_the_backoff() -> None:
    workshop = Workshop()
    workshop.fill()
    jobs: list[CleaningJob] = []

    def crash(job: CleaningJob) -> CleaningFailure:
        jobs.append(job)
        return CleaningFailure(FailureKind.CRASHED, "killed")

    workshop.run = crash
    workshop.compact()
    workshop.compact()
    assert len(jobs) == 1
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.compact()
    assert len(jobs) == 2


def test_open_transaction_delays_cleaning() -> None:
    """CP-1"""
    workshop = Workshop()
    record = Record(key=b"key-0", value=b"open", timestamp=workshop.now_ms)
    batch = build_batch(
        [record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    workshop.log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=workshop.now_ms)
    workshop.fill()
    workshop.tick()
    assert not workshop.cleaner.is_busy


def test_truncated_log_is_not_marked_uncleanable() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.tick()
    workshop.log.truncate_to(9, now_ms=workshop.now_ms)
    workshop.run = lambda _: CleaningFailure(FailureKind.CORRUPT, "a batch ends too early")
    workshop.executor.finish()
    assert workshop.cleaner.uncleanable == {}


def test_unflushed_records_are_not_compacted() -> None:
    """The newer value must be durable before the older one is removed."""
    workshop = Workshop()
    workshop.fill()
    workshop.log._flushing.lower(0)
    workshop.tick()
    assert not workshop.cleaner.is_busy


def test_unreadable_log_does_not_prevent_cleaning_of_others() -> None:
    workshop = Workshop()
    workshop.fill()
    damaged = workshop.log.partition
    workshop.log = workshop.create("balances")
    workshop.fill()
    workshop.logs.close()
    log = path_of(ROOT / "accounts-0", 0, LOG)
    workshop.disk.open(log).write([b"\7"], MAGIC_POSITION)
    workshop.open()
    for partition in workshop.logs.partitions():
        workshop.logs.log(partition, now_ms=workshop.now_ms)
    workshop.compact()
    assert workshop.cleaner.last_result is not None
    assert list(workshop.cleaner.uncleanable) == [damaged]
    assert workshop.logs.directories[0].failure is None


def test_recreated_topic_of_a_corrupt_log_is_cleaned() -> None:
    workshop = Workshop()
    workshop.fill()
    sound, workshop.run = workshop.run, lambda _: CleaningFailure(FailureKind.CORRUPT, "bad")
    workshop.compact()
    workshop.logs.delete(workshop.log.partition, now_ms=workshop.now_ms)
    workshop.log = workshop.create("accounts")
    workshop.fill()
    workshop.run = sound
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.compact()
    assert workshop.cleaner.last_result is not None


def test_deleted_log_is_not_marked_uncleanable() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.tick()
    workshop.logs.delete(workshop.log.partition, now_ms=workshop.now_ms)
    workshop.create("accounts")
    workshop.run = lambda _: CleaningFailure(FailureKind.CORRUPT, "the file ends too early")
    workshop.executor.finish()
    assert workshop.cleaner.uncleanable == {}


def test_disk_failure_during_a_swap_takes_the_directory_offline() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.tick()
    workshop.executor.finish()
    workshop.disk.fail_next_sync(str(ROOT / "accounts-0"))
    while workshop.cleaner.is_busy:
        workshop.tick()
    assert workshop.logs.directories[0].failure is not None


def test_cleaning_is_retried_if_the_executor_is_full() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.executor.is_full = True
    workshop.compact()
    workshop.executor.is_full = False
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.compact()
    assert workshop.cleaner.last_result is not None


def cleaned_files(workshop: Workshop) -> list[str]:
    return [name for name in workshop.disk.names(workshop.log.folder) if "cleaned" in name]


def test_stop_cancels_the_cleaning_and_starts_no_other() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.tick()
    before = contents(workshop.log)
    workshop.cleaner.stop()
    assert workshop.cleanings[0].is_cancelled
    workshop.executor.finish()
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.tick(3)
    assert len(workshop.cleanings) == 1
    assert not workshop.cleaner.is_busy
    assert contents(workshop.log) == before


def test_result_after_stop_is_dropped() -> None:
    workshop = Workshop()
    workshop.fill()
    workshop.tick()
    before = contents(workshop.log)
    workshop.executor.work()
    assert cleaned_files(workshop)
    workshop.cleaner.stop()
    workshop.executor.finish()
    workshop.tick(3)
    assert cleaned_files(workshop) == []
    assert contents(workshop.log) == before


def test_stop_during_a_swap_keeps_swapped_segments_and_drops_the_rest() -> None:
    """CP-7"""
    workshop = Workshop(dataclasses.replace(COMPACTED, segment_bytes=300))
    for number in range(40):
        workshop.put(b"key-%d" % (number % 20), b"value-%d" % number * 4)
    workshop.tick()
    workshop.executor.finish()
    newest = {key: value for _, key, value in contents(workshop.log)}
    workshop.tick()
    assert workshop.cleaner.is_busy
    workshop.cleaner.stop()
    assert not workshop.cleaner.is_busy
    assert cleaned_files(workshop) == []
    assert {key: value for _, key, value in contents(workshop.log)} == newest
    workshop.logs.close()
    workshop.open()
    log = workshop.logs.log(workshop.log.partition, now_ms=workshop.now_ms)
    assert log is not None
    assert {key: value for _, key, value in contents(log)} == newest


def test_cleaning_continues_after_the_clock_is_set_back() -> None:
    workshop = Workshop()
    workshop.tick()
    workshop.now_ms -= 86_400_000
    workshop.fill()
    before = len(contents(workshop.log))
    workshop.compact()
    assert len(contents(workshop.log)) < before


def with_dirty_logs(count: int, storage: StorageSettings) -> Workshop:
    workshop = Workshop(storage=storage)
    workshop.fill()
    for number in range(1, count):
        workshop.log = workshop.create(f"accounts-{number}")
        workshop.fill()
    return workshop


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_at_most_log_cleaner_threads_logs_are_cleaned_at_once(threads: int) -> None:
    storage = dataclasses.replace(SETTINGS, log_cleaner_threads=threads)
    workshop = with_dirty_logs(4, storage)
    jobs: list[CleaningJob] = []

    def run(job: CleaningJob) -> CleaningResult:
        jobs.append(job)
        return clean(workshop.disk, job)

    workshop.run = run
    workshop.tick(3)
    assert len(workshop.cleanings) == threads
    most = 0
    while len(jobs) < 4 or workshop.cleaner.is_busy:
        workshop.executor.step()
        workshop.tick()
        most = max(most, workshop.cleaner.busy_count)
    assert most == threads
    assert len({job.folder for job in jobs}) == 4, "each log is cleaned once"
    for log in workshop.logs.opened():
        assert log.first_dirty_offset == log.local_log.segments.active.base_offset


def test_cleaner_threads_share_buffers_equally() -> None:
    workshop = Workshop()
    workshop.fill()
    jobs: list[CleaningJob] = []

    def run(job: CleaningJob) -> CleaningFailure:
        jobs.append(job)
        return CleaningFailure(FailureKind.CRASHED, "killed")

    workshop.run = run
    workshop.compact()
    workshop.cleaner.configure(dataclasses.replace(SETTINGS, log_cleaner_threads=2))
    workshop.now_ms += SETTINGS.log_cleaner_backoff_ms
    workshop.compact()
    one, two = jobs
    assert two.map_memory_bytes * 2 == one.map_memory_bytes
    assert two.io_buffer_bytes * 2 == one.io_buffer_bytes


def test_running_cleanings_share_the_io_budget() -> None:
    storage = dataclasses.replace(
        SETTINGS, log_cleaner_threads=2, log_cleaner_io_max_bytes_per_second=1_000
    )
    workshop = with_dirty_logs(2, storage)
    workshop.tick()
    first, second = workshop.cleanings
    assert first.io_limits == second.io_limits == [500]
    workshop.executor.work()
    workshop.executor.deliver()
    # The one that still runs gets the share of the other.
    assert sorted([first.io_limits, second.io_limits]) == [[500], [500, 1_000]]
    workshop.cleaner.configure(dataclasses.replace(storage, log_cleaner_io_max_bytes_per_second=70))
    assert sorted([first.io_limits, second.io_limits]) == [[500], [500, 1_000, 70]]


def test_no_cleaning_starts_without_cleaner_threads() -> None:
    workshop = Workshop(storage=dataclasses.replace(SETTINGS, log_cleaner_threads=0))
    workshop.fill()
    workshop.tick()
    assert not workshop.cleaner.is_busy
