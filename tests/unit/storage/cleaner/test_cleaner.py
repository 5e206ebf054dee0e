"""Cleaner: which records a cleaning keeps and removes."""

import random
from dataclasses import replace

import pytest

from headwater.common.exceptions import CorruptBatch, StorageError
from headwater.records.batch_header import Codec, TimestampType
from headwater.records.control_batches import ControlType
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import CleaningJob, CleaningResult
from headwater.storage.cleaner.segment_swap import apply, finish_interrupted
from headwater.storage.io.disk import read_whole
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.simple_log import (
    FOLDER,
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Pair,
    SimpleLog,
    pairs,
    read_aborted,
    read_committed,
    read_log,
    segment_bases,
)

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def log() -> SimpleLog:
    return SimpleLog(LossyDisk(random.Random(1)))


def clean_and_apply(log: SimpleLog, job: CleaningJob | None = None) -> CleaningResult:
    result = clean(log.disk, job or log.job())
    apply(log.disk, log.folder, result)
    finish_interrupted(log.disk, log.folder)
    log.accept(result)
    return result


def clean_at(log: SimpleLog, now_ms: int) -> CleaningResult:
    return clean_and_apply(log, replace(log.job(now_ms=now_ms), first_dirty_offset=0))


def contents(log: SimpleLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        pair[:3] for batch in read_log(log.disk) if batch.marker is None for pair in pairs(batch)
    ]


def markers(log: SimpleLog) -> list[Batch]:
    return [batch for batch in read_log(log.disk) if batch.header.is_control]


def test_newest_value_of_a_key_stays_at_its_offset(log: SimpleLog) -> None:
    """CP-3."""
    log.append([(A, b"1"), (B, b"1"), (A, b"2")])
    log.append([(A, b"3"), (C, b"1")])
    log.roll()
    result = clean_and_apply(log)
    assert contents(log) == [(1, B, b"1"), (3, A, b"3"), (4, C, b"1")]
    assert result.first_dirty_offset == 5
    stats = result.stats
    assert (stats.mapped_records, stats.read_records, stats.written_records) == (5, 5, 3)


def test_active_segment_is_not_cleaned_and_not_mapped(log: SimpleLog) -> None:
    """CP-1."""
    log.append([(A, b"1")])
    log.roll()
    log.append([(A, b"2")])
    clean_and_apply(log)
    assert contents(log) == [(0, A, b"1"), (1, A, b"2")]


def test_records_without_key_are_removed(log: SimpleLog) -> None:
    """CP-3."""
    log.append([(A, b"1"), (None, b"1")])
    log.append([(None, b"2")])
    log.roll()
    clean_and_apply(log)
    assert contents(log) == [(0, A, b"1")]


def test_clean_part_is_filtered_by_the_offset_map_of_the_dirty_part(log: SimpleLog) -> None:
    log.append([(A, b"1"), (B, b"1")])
    log.roll()
    clean_and_apply(log)
    log.append([(A, b"2")])
    log.roll()
    result = clean_and_apply(log)
    assert contents(log) == [(1, B, b"1"), (2, A, b"2")]
    assert result.stats.mapped_records == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_filtered_batch_keeps_codec_producer_sequence_and_offsets(
    log: SimpleLog, codec: Codec
) -> None:
    log.append([(A, b"1"), (B, b"1"), (A, b"2")], producer_id=7, codec=codec, timestamp=500)
    log.roll()
    before = read_log(log.disk)[0].header
    clean_and_apply(log)
    (batch,) = read_log(log.disk)
    assert pairs(batch) == [Pair(1, B, b"1", 501), Pair(2, A, b"2", 502)]
    for name in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "codec",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "max_timestamp",
    ):
        assert getattr(batch.header, name) == getattr(before, name)


def test_log_append_time_survives_filtering(log: SimpleLog) -> None:
    log.append(
        [(A, b"1"), (B, b"1"), (A, b"2"), (A, b"3")],
        timestamp=500,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    log.append([(A, b"4")])
    log.roll()
    clean_and_apply(log)
    thinned = read_log(log.disk)[0]
    assert pairs(thinned) == [Pair(1, B, b"1", 503)]
    assert thinned.header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_unchanged_batch_is_copied_byte_by_byte(log: SimpleLog) -> None:
    log.append([(A, b"1" * 100)], codec=Codec.ZSTD)
    log.append([(B, b"1"), (B, b"2")])
    log.roll()
    before = read_log(log.disk)
    clean_and_apply(log)
    after = read_log(log.disk)
    assert after[0].raw == before[0].raw
    assert after[1].raw != before[1].raw


def test_tombstone_gets_a_delete_horizon_and_is_removed_after_it(log: SimpleLog) -> None:
    """CP-4."""
    log.append([(A, b"1")])
    log.append([(A, None), (B, b"1")], timestamp=700)
    log.roll()
    clean_at(log, 10_000)
    (batch,) = read_log(log.disk)
    assert batch.header.delete_horizon_ms == 11_000
    assert pairs(batch) == [Pair(1, A, None, 700), Pair(2, B, b"1", 701)]
    before = batch.raw
    clean_at(log, 10_999)
    assert read_log(log.disk)[0].raw == before, "a horizon is set once"
    clean_at(log, 11_000)
    (batch,) = read_log(log.disk)
    assert pairs(batch) == [Pair(2, B, b"1", 701)]
    assert batch.header.delete_horizon_ms == 11_000


def test_aborted_data_is_removed_and_not_mapped(log: SimpleLog) -> None:
    """CP-5."""
    log.append([(A, b"old")])
    log.append([(A, b"aborted"), (B, b"aborted")], producer_id=7, is_transactional=True)
    log.append([(C, b"1")])
    log.end_transaction(7, commit=False)
    log.append([(C, b"2")])
    log.roll()
    log.producers[7].is_live = False
    result = clean_and_apply(log)
    assert contents(log) == [(0, A, b"old"), (5, C, b"2")]
    assert result.stats.aborted_records == 2
    assert len(markers(log)) == 1, "its data was still there in this round"
    assert [span.last_offset for span in read_aborted(log.disk)] == [4]


def test_committed_transactional_data_is_compacted_like_any_other(log: SimpleLog) -> None:
    log.append([(A, b"1")], producer_id=7, is_transactional=True)
    log.roll()
    log.append([(A, b"2")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=True)
    log.append([(B, b"1")])
    log.roll()
    log.producers[7].is_live = False
    clean_and_apply(log)
    assert contents(log) == [(1, A, b"2"), (3, B, b"1")]
    assert [batch.marker for batch in markers(log)] == [ControlType.COMMIT]


@pytest.mark.parametrize("commit", [True, False])
def test_marker_is_removed_after_its_data_and_its_delete_horizon(
    log: SimpleLog, commit: bool
) -> None:
    """CP-5."""
    log.append([(A, b"1")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=commit, timestamp=900)
    log.append([(A, b"2")])
    log.roll()
    log.producers[7].is_live = False

    clean_at(log, 10_000)
    assert markers(log)[0].header.delete_horizon_ms is None
    clean_at(log, 20_000)
    (marker,) = markers(log)
    assert marker.header.delete_horizon_ms == 21_000
    assert marker.records[0].timestamp == 900
    assert read_aborted(log.disk) == []
    clean_at(log, 20_999)
    assert len(markers(log)) == 1
    clean_at(log, 21_000)
    assert markers(log) == []
    assert contents(log) == [(2, A, b"2")]


def test_aborted_transaction_that_began_in_a_clean_segment_is_known(log: SimpleLog) -> None:
    log.append([(A, b"0")])
    log.append([(B, b"aborted")], producer_id=7, is_transactional=True)
    log.roll()
    log.append([(A, b"aborted")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=False)
    log.append([(A, b"mine")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=True)
    log.roll()
    clean_and_apply(log, replace(log.job(), first_dirty_offset=2))
    assert [pair[:3] for pair in read_committed(log.disk, 99)] == [(4, A, b"mine")]


def test_abort_marker_after_the_range_applies_to_data_in_the_range(log: SimpleLog) -> None:
    log.append([(A, b"1")])
    log.append([(A, b"aborted")], producer_id=7, is_transactional=True)
    log.roll()
    log.end_transaction(7, commit=False)
    clean_and_apply(log)
    assert contents(log) == [(0, A, b"1")]
    assert len(markers(log)) == 1


def test_open_transaction_keeps_its_segment_out_of_the_range(log: SimpleLog) -> None:
    """CP-1, LSO-1."""
    log.append([(A, b"1")])
    log.roll()
    log.append([(B, b"1")], producer_id=7, is_transactional=True)
    log.roll()
    log.append([(A, b"2")])
    log.roll()
    assert clean_and_apply(log).first_dirty_offset == 1
    assert contents(log) == [(0, A, b"1"), (1, B, b"1"), (2, A, b"2")]


def test_last_batch_of_an_active_producer_is_kept_empty(log: SimpleLog) -> None:
    """IDP-12, CP-6."""
    log.append([(A, b"1")], producer_id=7)
    log.append([(A, b"2"), (A, b"3")], producer_id=7)
    log.append([(A, b"4")])
    log.roll()
    clean_and_apply(log)
    empty, full = read_log(log.disk)
    assert (empty.header.record_count, empty.header.last_offset) == (0, 2)
    assert (empty.header.producer_id, empty.header.last_sequence) == (7, 2)
    assert pairs(full) == [Pair(3, A, b"4", 1000)]
    log.producers[7].is_live = False
    clean_at(log, 10_000)
    assert [batch.header.base_offset for batch in read_log(log.disk)] == [3]


def test_active_producer_without_data_keeps_the_marker_of_its_epoch(log: SimpleLog) -> None:
    """CP-6."""
    log.append([(A, b"1")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=True, bumps_epoch=True)
    log.append([(A, b"2")])
    log.roll()
    for now_ms in (10_000, 20_000, 30_000, 40_000):
        clean_at(log, now_ms)
    (marker,) = markers(log)
    assert (marker.header.producer_epoch, marker.header.record_count) == (1, 0)
    log.producers[7].is_live = False
    clean_at(log, 50_000)
    assert markers(log) == []


def test_last_batch_of_the_range_is_kept_even_if_empty(log: SimpleLog) -> None:
    """CP-6."""
    log.append([(A, b"1")])
    log.append([(None, b"1")])
    log.roll()
    clean_and_apply(log)
    first, last = read_log(log.disk)
    assert (last.header.record_count, last.header.next_offset) == (0, 2)
    assert pairs(first) == [Pair(0, A, b"1", 1000)]


def test_full_offset_map_ends_the_range_and_the_next_round_continues(log: SimpleLog) -> None:
    log.append([(A, b"1"), (B, b"1")])
    log.append([(A, b"2"), (C, b"1"), (A, b"3"), (B, b"2")])
    log.roll()
    log.append([(A, b"4")])
    log.roll()
    two_keys = replace(log.job(), map_memory_bytes=24 * 3)
    result = clean_and_apply(log, two_keys)
    assert result.first_dirty_offset == 3
    assert [group.base_offset for group in result.groups] == [0]
    assert contents(log) == [
        (1, B, b"1"),
        (2, A, b"2"),
        (3, C, b"1"),
        (4, A, b"3"),
        (5, B, b"2"),
        (6, A, b"4"),
    ]
    # The batch is now larger than the map, which grows, or no round would make progress.
    result = clean_and_apply(log, replace(log.job(), map_memory_bytes=24 * 3))
    assert result.first_dirty_offset == 7
    assert contents(log) == [(3, C, b"1"), (5, B, b"2"), (6, A, b"4")]


def test_committed_batches_above_the_map_are_copied_whole(log: SimpleLog) -> None:
    log.append([(A, b"1"), (B, b"1")])
    log.append([(C, None), (None, b"1"), (C, b"1")])
    log.append([(C, b"2")])
    log.roll()
    before = [batch.raw for batch in read_log(log.disk)]
    result = clean_and_apply(log, replace(log.job(), map_memory_bytes=24 * 3))
    assert result.first_dirty_offset == 2
    assert [batch.raw for batch in read_log(log.disk)] == before, "no horizon yet either"


def test_small_segments_are_merged_and_keep_the_modification_time_of_the_last(
    log: SimpleLog,
) -> None:
    """CP-7."""
    for offset in range(4):
        log.append([(b"%d" % offset, b"1")])
        log.disk.set_modified(log.folder / f"{offset:020d}.log", 1000 + offset)
        log.roll()
    size = log.job().sources[0].size_bytes
    result = clean_and_apply(log, replace(log.job(), segment_bytes=3 * size))
    assert [group.base_offset for group in result.groups] == [0, 3]
    assert segment_bases(log.disk) == [0, 3, 4]
    status = log.disk.status(FOLDER / f"{0:020d}.log")
    assert status is not None
    assert status.modified_ms == 1002


def test_group_of_empty_segments_leaves_an_empty_segment(log: SimpleLog) -> None:
    log.append([(A, b"1")])
    log.roll()
    job = log.job()
    empty = replace(job.sources[0], size_bytes=0)
    result = clean(log.disk, replace(job, sources=(empty,)))
    assert (result.groups[0].size_bytes, result.groups[0].next_offset) == (0, 0)


def test_indexes_have_the_entries_that_an_append_would_write(log: SimpleLog) -> None:
    for number in range(30):
        log.append([(b"%d" % number, b"v" * 40)], timestamp=5000 - number if number % 3 else number)
    log.roll()
    job = replace(log.job(), index_interval_bytes=250)
    (group,) = clean_and_apply(log, job).groups
    batches = read_log(log.disk)
    offsets = read_whole(log.disk, FOLDER / f"{0:020d}.index") or b""
    times = read_whole(log.disk, FOLDER / f"{0:020d}.timeindex") or b""
    size = batches[0].header.size_bytes
    every = 250 // size + 1
    assert list(OFFSET_ENTRY.iter_unpack(offsets)) == [
        (batch.header.last_offset, batch.position) for batch in batches[every::every]
    ]
    assert list(TIME_ENTRY.iter_unpack(times)) == [(4999, 1)]
    assert (group.largest_timestamp_ms, group.offset_of_largest_timestamp) == (4999, 1)
    assert (group.offset_index_bytes, group.time_index_bytes) == (len(offsets), len(times))


def test_full_index_gets_no_more_entries_except_the_last_timestamp(log: SimpleLog) -> None:
    for number in range(20):
        log.append([(b"%d" % number, b"v")], timestamp=number)
    log.roll()
    clean_and_apply(log, replace(log.job(), index_interval_bytes=0, segment_index_bytes=40))
    offsets = read_whole(log.disk, FOLDER / f"{0:020d}.index") or b""
    times = read_whole(log.disk, FOLDER / f"{0:020d}.timeindex") or b""
    assert len(offsets) == 40
    assert list(TIME_ENTRY.iter_unpack(times)) == [(1, 1), (2, 2), (19, 19)]


@pytest.mark.parametrize("io_buffer_bytes", [1, 100, 130, 4096])
def test_any_buffer_size_gives_the_same_segments(log: SimpleLog, io_buffer_bytes: int) -> None:
    log.append([(A, b"1" * 300), (B, b"1")])
    log.append([(A, b"2")])
    log.append([(C, b"3" * 200), (A, b"2")])
    log.roll()
    clean_and_apply(log, replace(log.job(), io_buffer_bytes=io_buffer_bytes))
    assert [pair[:2] for pair in contents(log)] == [(1, B), (3, C), (4, A)]


def damage(log: SimpleLog, position: int, content: bytes) -> None:
    file = log.disk.open(FOLDER / f"{0:020d}.log")
    file.write([content], position)
    file.close()


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (16, b"\1"),
        (8, (1 << 30).to_bytes(4, "big")),
        (8, (10).to_bytes(4, "big")),
        (75, b"\xff"),
        (0, (2).to_bytes(8, "big")),
    ],
    ids=["old magic", "length beyond the file", "length too short", "CRC", "offsets fall"],
)
def test_corruption_stops_the_cleaning_and_leaves_the_log_unchanged(
    log: SimpleLog, position: int, content: bytes
) -> None:
    log.append([(A, b"1" * 20), (B, b"1")])
    log.append([(A, b"2")])
    log.roll()
    job = log.job()
    damage(log, position, content)
    names = log.disk.names(FOLDER)
    with pytest.raises(CorruptBatch, match=r"00000000000000000000\.log, position \d+"):
        clean(log.disk, job)
    assert log.disk.names(FOLDER) == names


def test_segment_shorter_than_expected_is_corrupt(log: SimpleLog) -> None:
    log.append([(A, b"1")])
    log.roll()
    job = log.job()
    longer = replace(job.sources[0], size_bytes=job.sources[0].size_bytes + 10)
    with pytest.raises(CorruptBatch, match="into a batch header"):
        clean(log.disk, replace(job, sources=(longer,)))


def test_segment_whose_offsets_overflow_its_index_is_rejected(log: SimpleLog) -> None:
    log.append([(A, b"1")])
    log.end_offset = 2**31
    log.append([(A, b"2")])
    log.roll()
    with pytest.raises(CorruptBatch, match="2147483648"):
        clean(log.disk, log.job())


def test_failing_disk_leaves_no_output_behind(log: SimpleLog) -> None:
    disk = log.disk
    assert isinstance(disk, LossyDisk)
    log.append([(A, b"1")])
    log.roll()
    log.append([(B, b"1")])
    log.roll()
    names = disk.names(FOLDER)
    job = replace(log.job(), segment_bytes=1)
    for operation, pattern in [
        (disk.fail_next_write, "*1.log.cleaned"),
        (disk.fail_next_sync, "*1.timeindex.cleaned"),
        (disk.fail_next_sync, "topic-0"),
    ]:
        operation(pattern)
        with pytest.raises(StorageError):
            clean(disk, job)
        assert disk.names(FOLDER) == names


def test_files_of_a_killed_cleaning_do_not_get_into_the_next(log: SimpleLog) -> None:
    log.append([(A, b"1")])
    log.roll()
    for name in (f"{0:020d}.txnindex.cleaned", f"{0:020d}.log.cleaned"):
        file = log.disk.open(FOLDER / name, create=True)
        file.write([b"x" * 5000], 0)
        file.close()
    clean_and_apply(log)
    assert contents(log) == [(0, A, b"1")]
    assert read_aborted(log.disk) == []


def test_pace_is_called_with_every_byte(log: SimpleLog) -> None:
    log.append([(A, b"1"), (A, b"2")])
    log.roll()
    told: list[int] = []
    result = clean(log.disk, log.job(), told.append)
    stats = result.stats
    assert sum(told) == stats.mapped_bytes + stats.read_bytes + stats.written_bytes
