"""Recovery from crashes; each case was found by the simulator."""

import random
import struct
from pathlib import PurePath

import pytest

from headwater.common.exceptions import CorruptBatch
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.checksum import write_crc
from headwater.storage.io.disk import make_directory_durably
from headwater.storage.log.segment_files import LOG, TIME_INDEX, path_of
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import FOLDER, START_MS, LogLab, records

ONE_SEGMENT = TopicSettings()
# Space for two batches of the lab's default size.
TWO_BATCHES = TopicSettings(segment_bytes=200)


def size_of(lab: LogLab, base_offset: int) -> int:
    status = lab.disk.status(path_of(FOLDER, base_offset, LOG))
    assert status is not None
    return status.size


def bases(lab: LogLab) -> list[int]:
    return [segment.base_offset for segment in lab.log.local_log.segments]


@pytest.mark.parametrize("seed", range(8))
def test_new_directory_survives_a_power_cut_with_all_synced_files(seed: int) -> None:
    disk = LossyDisk(random.Random(seed))
    path = PurePath("/var/lib/headwater")
    make_directory_durably(disk, path)
    file = disk.open(path / "meta.properties", create=True)
    file.sync()
    disk.sync_directory(path)
    disk.power_cut()
    assert disk.names(path) == ["meta.properties"]


def test_corrupt_tail_removes_no_valid_batch() -> None:
    """RC-1"""
    lab = LogLab(ONE_SEGMENT)
    for _ in range(5):
        lab.append(2)
    whole = lab.read_bytes()
    lab.disk.open(path_of(FOLDER, 0, LOG)).write([bytes(300)], len(whole))
    lab.crash()
    assert lab.read_bytes() == whole
    assert size_of(lab, 0) == len(whole)


def test_batch_lost_at_the_end_of_a_segment_ends_the_log() -> None:
    """A gap that is never filled is worse than a log end from which replication continues."""
    lab = LogLab(TWO_BATCHES)
    for _ in range(6):
        lab.append(1)
    lab.log.flush()
    lab.recovery_point = 0
    assert bases(lab) == [0, 2, 4]
    size = size_of(lab, 2)
    lab.disk.open(path_of(FOLDER, 2, LOG)).truncate(size // 2)
    lab.crash()
    assert lab.log.end_offset == 3
    assert [offset for offset, _ in lab.contents()] == [0, 1, 2]
    assert lab.report.dropped_segments == 1


def test_followers_new_segment_starts_at_the_log_end() -> None:
    """EP-9: an offset gap is inside a segment, so a gap between two of them means a loss."""
    lab = LogLab(TWO_BATCHES)
    lab.append(2)
    far = build_batch(records(b"x" * 150), base_offset=900, leader_epoch=0)
    lab.log.append_as_follower(far, leader_epoch=0, now_ms=START_MS)
    assert bases(lab) == [0, 2]
    lab.crash()
    assert [offset for offset, _ in lab.contents()] == [0, 1, 900]


def test_truncation_undone_by_a_power_cut_duplicates_no_offset() -> None:
    """The new segment must not hide the old one, whose stale bytes are back."""
    lab = LogLab(ONE_SEGMENT)
    for _ in range(4):
        lab.append(1)
    lab.log.flush()
    lab.checkpoint()
    before = lab.read_bytes()
    lab.log.truncate_to(2, now_ms=lab.now_ms)
    lab.log.roll(lab.now_ms)
    lab.append(1, leader_epoch=5)
    lab.disk.open(path_of(FOLDER, 0, LOG)).write([before], 0)
    lab.crash()
    assert lab.read_bytes() == before
    assert bases(lab) == [0]


def test_abandoned_log_starts_no_further_flush() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = LogLab(ONE_SEGMENT, executor=executor)
    lab.append(1)
    lab.log.flush()
    lab.log.flush()
    lab.log.discard()
    executor.finish()
    assert lab.failures == []


def test_largest_timestamp_is_that_of_a_readable_record() -> None:
    """LO-1"""
    lab = LogLab(ONE_SEGMENT)
    for timestamp in (START_MS + 5, START_MS + 9, START_MS + 1, START_MS + 3):
        lab.append(records(b"v", timestamp=timestamp))
    lab.log.delete_records_below(2)
    latest = lab.log.with_largest_timestamp()
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (3, START_MS + 3)


def test_half_written_temporary_file_is_removed() -> None:
    lab = LogLab(ONE_SEGMENT)
    lab.append(1)
    lab.disk.open(FOLDER / "leader-epoch-checkpoint.tmp", create=True)
    lab.crash()
    assert not [name for name in lab.disk.names(FOLDER) if name.endswith(".tmp")]


@pytest.mark.parametrize("way", ["truncate", "start over"])
def test_lowered_log_start_hides_no_later_record(way: str) -> None:
    lab = LogLab(TWO_BATCHES)
    for _ in range(6):
        lab.append(1)
    lab.log.delete_records_below(6)
    lab.checkpoint()
    if way == "truncate":
        lab.log.truncate_to(3, now_ms=lab.now_ms)
    else:
        lab.log.start_over(3, now_ms=lab.now_ms)
    lab.append(1, leader_epoch=4)
    lab.crash()
    assert [offset for offset, _ in lab.contents()] == [3]


def held_lab(seed: int, settings: TopicSettings) -> tuple[LogLab, HeldExecutor]:
    """A log with a durable directory whose flushes run on demand."""
    executor = HeldExecutor(random.Random(seed))
    lab = LogLab(settings, seed=seed, executor=executor)
    for folder in (FOLDER.parent.parent, FOLDER.parent):
        lab.disk.sync_directory(folder)
    return lab, executor


def cut_power(lab: LogLab, executor: HeldExecutor) -> None:
    executor.crash()
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.power_cut()
    lab.open(was_clean=False)


def test_records_after_a_truncation_never_follow_truncated_ones() -> None:
    """The truncation is durable before anything is appended, whatever the next power cut loses."""
    for seed in range(100):
        lab, executor = held_lab(seed, TWO_BATCHES)
        for _ in range(2):
            lab.append(1, leader_epoch=1)
        lab.log.flush()
        executor.finish()
        lab.log.truncate_to(0, now_ms=lab.now_ms)
        for _ in range(3):
            lab.append(1, leader_epoch=4)
        cut_power(lab, executor)
        epochs = [entry.epoch for entry in lab.log.epochs.entries()]
        assert epochs in ([], [4]), f"seed {seed}"


@pytest.mark.parametrize("flushes_before", [True, False])
def test_last_index_entry_of_a_sealed_segment_is_flushed_or_rebuilt(
    flushes_before: bool,
) -> None:
    """Everything below the recovery point must be complete, because a start trusts it."""
    for seed in range(40):
        lab, executor = held_lab(seed, ONE_SEGMENT)
        lab.append(records(b"v", timestamp=START_MS + 7))
        lab.append(records(b"v", timestamp=START_MS + 9))
        lab.log.flush()
        executor.work()
        if flushes_before:
            executor.deliver()
            lab.checkpoint()
        lab.log.roll(lab.now_ms)
        lab.disk.sync_directory(FOLDER)
        executor.deliver()
        lab.checkpoint()
        cut_power(lab, executor)
        assert lab.log.local_log.segments.first.largest_timestamp == START_MS + 9, f"seed {seed}"


def test_largest_timestamp_is_not_that_of_an_emptied_batch() -> None:
    """LO-1: an emptied batch keeps its max timestamp in the header."""
    lab = LogLab(ONE_SEGMENT)
    lab.append(1)
    empty = bytearray(build_batch([], base_offset=1, last_offset=2, leader_epoch=0))
    struct.pack_into(">q", empty, 35, START_MS + 50)
    write_crc(empty, 0, len(empty))
    rest = build_batch(records(b"v", timestamp=START_MS + 9), base_offset=3, leader_epoch=0)
    lab.log.append_as_follower(bytes(empty) + rest, leader_epoch=0, now_ms=START_MS)
    latest = lab.log.with_largest_timestamp()
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (3, START_MS + 9)


def test_removed_files_do_not_come_back() -> None:
    for seed in range(40):
        lab, executor = held_lab(seed, ONE_SEGMENT)
        lab.append(2, leader_epoch=1)
        lab.log.flush()
        executor.finish()
        for name in lab.disk.names(FOLDER):
            lab.disk.remove(FOLDER / name)
        lab.crash()
        lab.append(1, leader_epoch=2)
        cut_power(lab, executor)
        assert 1 not in [entry.epoch for entry in lab.log.epochs.entries()], f"seed {seed}"


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_wrong_offset_in_the_last_batch_does_not_empty_the_log(
    offset: int,
) -> None:
    """The CRC does not cover the base offset, and after a clean shutdown no CRC is checked."""
    lab = LogLab(TWO_BATCHES)
    for _ in range(7):
        lab.append(2)
    lab.log.delete_records_below(6)
    lab.log.close()
    lab.checkpoint()
    names = lab.disk.names(FOLDER)
    lab.disk.open(path_of(FOLDER, 12, LOG)).write([struct.pack(">q", offset)], 0)
    with pytest.raises(CorruptBatch):
        lab.open(was_clean=True)
    assert lab.disk.names(FOLDER) == names


def test_offset_too_large_for_an_index_ends_the_log_after_a_crash() -> None:
    lab = LogLab(ONE_SEGMENT)
    for step in range(3):
        lab.append(records(b"value", timestamp=START_MS + step))
    size = len(lab.read_bytes()) // 3
    lab.disk.open(path_of(FOLDER, 0, LOG)).write([struct.pack(">q", 1 << 40)], 2 * size)
    lab.crash()
    assert lab.log.end_offset == 2
    assert size_of(lab, 0) == 2 * size


def test_offset_too_large_for_an_index_is_reported_by_an_index_rebuild() -> None:
    lab = LogLab(ONE_SEGMENT)
    for step in range(3):
        lab.append(records(b"value", timestamp=START_MS + step))
    size = len(lab.read_bytes()) // 3
    lab.log.close()
    lab.checkpoint()
    lab.disk.open(path_of(FOLDER, 0, LOG)).write([struct.pack(">q", 1 << 40)], 2 * size)
    lab.disk.remove(path_of(FOLDER, 0, TIME_INDEX))
    with pytest.raises(CorruptBatch):
        lab.open(was_clean=True)
