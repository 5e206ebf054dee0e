"""UnifiedLog: append, read, roll, truncate, retention and recovery."""

import dataclasses
import random
import struct

import pytest

from headwater.common.exceptions import (
    BatchTooLarge,
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    StorageError,
    UnreadableLog,
    UnsupportedMagic,
)
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.record import Record
from headwater.storage.io.disk import read_whole
from headwater.storage.log.segment_files import INDEX, LOG, TRANSACTION_INDEX, file_name, path_of
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import FOLDER, START_MS, LogLab, records

SMALL = TopicSettings(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=1000)


def lab_with(**settings: object) -> LogLab:
    return LogLab(dataclasses.replace(SMALL, **settings))  # type: ignore[arg-type]


def bases(lab: LogLab) -> list[int]:
    return [segment.base_offset for segment in lab.log.local_log.segments]


def test_leader_assigns_offsets_and_epoch_and_readers_get_the_same_bytes() -> None:
    lab = LogLab()
    batch = bytearray(build_batch(records(b"a", b"b")))
    first = lab.log.append_as_leader(batch, leader_epoch=7, now_ms=lab.now_ms)
    second = lab.append(3, leader_epoch=7)
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset) == (2, 4)
    assert read_header(batch).leader_epoch == 7
    assert lab.read_bytes(0).startswith(batch)
    assert [offset for offset, _ in lab.contents()] == [0, 1, 2, 3, 4]


def test_follower_keeps_offsets_and_epochs_across_segments() -> None:
    """EP-9"""
    leader, follower = LogLab(SMALL), LogLab(SMALL)
    for epoch in (0, 0, 1, 3, 3):
        leader.append(8, leader_epoch=epoch)
    content = leader.read_bytes()
    assert follower.log.append_as_follower(content, leader_epoch=3, now_ms=START_MS) == len(content)
    assert follower.read_bytes() == content
    assert follower.log.epochs.entries() == leader.log.epochs.entries()
    assert len(bases(follower)) > 1


def test_follower_stops_at_a_newer_epoch_and_at_an_incomplete_batch() -> None:
    """EP-8"""
    leader, follower = LogLab(), LogLab()
    leader.append(2, leader_epoch=1)
    old = leader.read_bytes()
    leader.append(2, leader_epoch=5)
    taken = follower.log.append_as_follower(leader.read_bytes(), leader_epoch=4, now_ms=START_MS)
    assert taken == len(old)
    assert follower.log.append_as_follower(old[:-1], leader_epoch=4, now_ms=START_MS) == 0
    assert follower.read_bytes() == old


def test_follower_rejects_decreasing_offsets_and_keeps_its_log() -> None:
    leader, follower = LogLab(), LogLab()
    leader.append(2)
    content = leader.read_bytes()
    follower.log.append_as_follower(content, leader_epoch=0, now_ms=START_MS)
    with pytest.raises(CorruptBatch, match="cannot follow"):
        follower.log.append_as_follower(content, leader_epoch=0, now_ms=START_MS)
    assert follower.read_bytes() == content


def test_follower_accepts_offset_gaps_left_by_compaction() -> None:
    """EP-9"""
    lab = LogLab(SMALL)
    batch = build_batch(records(b"x"), base_offset=2**40, leader_epoch=0)
    lab.log.append_as_follower(batch, leader_epoch=0, now_ms=START_MS)
    assert lab.log.end_offset == 2**40 + 1
    assert bases(lab) == [0, 2**40] or bases(lab) == [2**40]
    assert lab.contents() == [(2**40, b"x")]


def test_follower_rejects_an_unreadable_marker_and_keeps_its_log() -> None:
    lab = LogLab()
    lab.append(2)
    before = lab.read_bytes()
    marker = build_batch(
        [Record(key=b"", value=None, timestamp=START_MS)],
        base_offset=2,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    with pytest.raises(CorruptBatch):
        lab.log.append_as_follower(marker, leader_epoch=0, now_ms=START_MS)
    assert lab.read_bytes() == before
    assert lab.log.end_offset == 2


@pytest.mark.parametrize("damage", ["crc", "length", "codec", "magic", "foreign", "empty"])
def test_bad_batches_are_rejected_and_the_log_is_unchanged(damage: str) -> None:
    """PV-1"""
    lab = LogLab()
    lab.append(2)
    before = lab.read_bytes()
    batch = bytearray(build_batch(records(b"value")))
    expected: type[Exception] = CorruptBatch
    match damage:
        case "crc":
            batch[-1] ^= 1
        case "length":
            batch[8:12] = (len(batch) + 100).to_bytes(4, "big")
        case "codec":
            batch[22] = 7
        case "magic":
            batch[16], expected = 1, UnsupportedMagic
        case "foreign":
            batch[:] = b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 4
            expected = UnsupportedMagic
        case _:
            batch.clear()
    with pytest.raises(expected):
        lab.log.append_as_leader(batch, leader_epoch=0, now_ms=lab.now_ms)
    assert lab.read_bytes() == before
    assert lab.log.end_offset == 2


def test_topic_limits_are_enforced() -> None:
    """PV-1, PV-2, PV-3"""
    lab = lab_with(max_message_bytes=200, message_timestamp_after_max_ms=1000)
    with pytest.raises(BatchTooLarge):
        lab.append(records(b"x" * 300))
    with pytest.raises(InvalidTimestamp):
        lab.append(records(b"x", timestamp=START_MS + 5000))
    two = bytearray(build_batch(records(b"x")) * 2)
    with pytest.raises(InvalidRecord):
        lab.log.append_as_leader(two, leader_epoch=0, now_ms=lab.now_ms)
    assert lab.contents() == []


def test_append_time_is_stamped_on_the_batch() -> None:
    """PV-4"""
    lab = lab_with(message_timestamp_type="LogAppendTime")
    appended = lab.append(records(b"x", timestamp=5))
    assert appended.append_time_ms == START_MS
    header = read_header(lab.read_bytes())
    assert header.max_timestamp == START_MS
    assert lab.log.local_log.segments.active.largest_timestamp == START_MS


def test_a_topics_codec_replaces_the_producers() -> None:
    """PV-5"""
    lab = lab_with(compression_type="zstd")
    lab.append(5, codec=Codec.GZIP)
    assert read_header(lab.read_bytes()).codec is Codec.ZSTD
    assert len(lab.contents()) == 5


def test_compacted_topic_rejects_null_keys() -> None:
    """CP-8"""
    lab = lab_with(cleanup_policy=("compact",))
    with pytest.raises(InvalidRecord):
        lab.append([dataclasses.replace(records(b"x")[0], key=None)])


def test_segments_roll_by_size_and_reads_continue_across_them() -> None:
    """RL-1, RL-2"""
    lab = LogLab(SMALL)
    for _ in range(12):
        lab.append(3)
    assert len(bases(lab)) > 3
    assert [offset for offset, _ in lab.contents()] == list(range(36))
    assert [offset for offset, _ in lab.contents(17)] == list(range(17, 36))
    for segment in lab.log.local_log.segments:
        assert segment.size <= SMALL.segment_bytes


def test_segments_roll_by_the_timestamps_of_their_records() -> None:
    """RL-1"""
    lab = lab_with(segment_bytes=1 << 20, segment_ms=1000)
    lab.append(records(b"a", timestamp=START_MS))
    lab.append(records(b"b", timestamp=START_MS + 1000))
    assert bases(lab) == [0]
    lab.now_ms += 2000
    lab.append(records(b"c", timestamp=START_MS + 1001))
    assert bases(lab) == [0, 2]


def test_compacted_log_rolls_within_max_compaction_lag() -> None:
    """CP-2: the active segment is not cleaned, so max.compaction.lag.ms bounds its age as well."""
    lab = lab_with(segment_bytes=1 << 20, cleanup_policy=("compact",), max_compaction_lag_ms=1000)
    lab.append(records(b"a", timestamp=START_MS))
    lab.now_ms += 2000
    lab.append(records(b"b", timestamp=START_MS + 1001))
    assert bases(lab) == [0, 1]


def test_a_full_index_rolls_the_segment() -> None:
    """RL-1"""
    lab = lab_with(segment_bytes=1 << 20, segment_index_bytes=24, index_interval_bytes=0)
    for _ in range(10):
        lab.append(1)
    assert len(bases(lab)) > 1
    assert [offset for offset, _ in lab.contents()] == list(range(10))


def test_read_returns_whole_batches_from_the_one_with_the_offset() -> None:
    """FT-2, FT-3"""
    lab = LogLab()
    lab.append(3)
    lab.append(3)
    size = len(lab.read_bytes()) // 2
    read = lab.log.read(1, max_bytes=10, bound=ReadBound.LOG_END)
    assert read.range is not None
    assert (read.range.position, read.range.length) == (0, size)
    assert lab.log.read(1, max_bytes=10, bound=ReadBound.LOG_END, at_least_one=False).range is None
    cut = lab.log.read(4, max_bytes=size + 1, bound=ReadBound.LOG_END)
    assert cut.range is not None
    assert (cut.range.position, cut.range.length) == (size, size)


def test_reads_stop_at_their_isolation_bound() -> None:
    """HW-6, HW-7"""
    lab = LogLab()
    lab.append(2)
    size = len(lab.read_bytes())
    batch = bytearray(build_batch(records(b"unreplicated")))
    lab.log.append_as_leader(batch, leader_epoch=0, now_ms=lab.now_ms)
    assert lab.log.high_watermark == 2
    read = lab.log.read(0, max_bytes=1 << 20, bound=ReadBound.HIGH_WATERMARK)
    assert read.range is not None
    assert read.range.length == size
    assert lab.log.read(2, max_bytes=99, bound=ReadBound.HIGH_WATERMARK).range is None
    assert lab.log.read(2, max_bytes=99, bound=ReadBound.LOG_END).range is not None
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange):
            lab.log.read(offset, max_bytes=99, bound=ReadBound.HIGH_WATERMARK)


def test_duplicate_is_answered_with_its_first_offsets_and_not_written() -> None:
    """IDP-2, IDP-3, IDP-4"""
    lab = LogLab()
    first = lab.append(2, producer=(9, 0, 0))
    lab.append(2, producer=(9, 0, 2))
    again = lab.append(2, producer=(9, 0, 0))
    assert again.is_duplicate
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset)
    assert lab.log.end_offset == 4
    with pytest.raises(OutOfOrderSequenceNumber):
        lab.append(1, producer=(9, 0, 5))
    lab.append(1, producer=(9, 1, 0))
    with pytest.raises(InvalidProducerEpoch):
        lab.append(1, producer=(9, 0, 4))
    assert lab.log.end_offset == 5


@pytest.mark.parametrize("stop", ["clean", "crash", "truncate"])
def test_producer_state_survives_every_kind_of_restart(stop: str) -> None:
    """IDP-8, RC-4"""
    lab = LogLab(SMALL)
    for sequence in range(0, 20, 2):
        lab.append(2, producer=(9, 0, sequence))
    match stop:
        case "clean":
            lab.reopen()
        case "crash":
            lab.crash()
        case _:
            lab.append(6, producer=(9, 0, 20))
            lab.log.truncate_to(20, now_ms=lab.now_ms)
    assert lab.append(2, producer=(9, 0, 18)).is_duplicate
    assert lab.append(1, producer=(9, 0, 20)).base_offset == 20


def test_duplicates_of_in_flight_batches_are_recognised_after_a_restart() -> None:
    """IDP-2. A snapshot has only the last batch of a producer, but the others are in the log."""
    lab = LogLab(TopicSettings(segment_bytes=1_000))
    first = [lab.append(2, producer=(9, 0, 2 * n)).base_offset for n in range(12)]
    for n in range(10):
        lab.append(1, producer=(10 + n, 0, 0))
    lab.reopen()
    for n in range(8, 12):
        again = lab.append(2, producer=(9, 0, 2 * n))
        assert again.is_duplicate
        assert again.base_offset == first[n]
    assert lab.append(2, producer=(9, 0, 24)).base_offset == lab.log.end_offset - 2


@pytest.mark.parametrize(
    "producer", [(9, 0, 5), (9, 0, 30), (9, 0, 7)], ids=["older", "later", "cut differently"]
)
def test_batch_that_was_never_written_is_rejected_after_a_restart(
    producer: tuple[int, int, int],
) -> None:
    """IDP-3."""
    lab = LogLab()
    lab.append(2, producer=(9, 0, 6))
    lab.append(2, producer=(9, 0, 8))
    lab.reopen()
    end_offset = lab.log.end_offset
    with pytest.raises(OutOfOrderSequenceNumber):
        lab.append(2 if producer[2] != 5 else 1, producer=producer)
    assert lab.log.end_offset == end_offset


def test_open_transactions_hold_back_the_last_stable_offset() -> None:
    """LSO-1, LSO-2"""
    lab = LogLab(SMALL)
    lab.append(1)
    lab.append(1, producer=(1, 0, 0), is_transactional=True)
    lab.append(1, producer=(2, 0, 0), is_transactional=True)
    assert lab.log.last_stable_offset == 1
    lab.end_transaction(1, commit=False)
    assert lab.log.last_stable_offset == 2
    lab.end_transaction(2, commit=True)
    assert lab.log.last_stable_offset == lab.log.end_offset
    read = lab.log.read(0, max_bytes=1 << 20, bound=ReadBound.LAST_STABLE)
    assert [(each.producer_id, each.first_offset) for each in read.aborted or []] == [(1, 1)]
    assert lab.log.read(0, max_bytes=9, bound=ReadBound.HIGH_WATERMARK).aborted is None


@pytest.mark.parametrize("was_clean", [True, False])
def test_aborted_transactions_are_found_after_a_restart(was_clean: bool) -> None:
    """LSO-2, RC-1"""
    lab = LogLab(SMALL)
    for producer in range(1, 8):
        lab.append(2, producer=(producer, 0, 0), is_transactional=True)
        lab.end_transaction(producer, commit=bool(producer % 2))
    if was_clean:
        lab.reopen()
    else:
        lab.crash()
    aborted = []
    for segment in lab.log.local_log.segments:
        aborted += [each.producer_id for each in segment.transactions.entries()]
    assert aborted == [2, 4, 6]


def test_clean_shutdown_needs_no_recovery() -> None:
    """RC-1"""
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3, leader_epoch=4)
    before = lab.read_bytes()
    lab.reopen()
    assert (lab.report.recovered_segments, lab.report.rebuilt_indexes) == (0, 0)
    assert lab.log.end_offset == 30
    assert lab.read_bytes() == before
    assert lab.log.epochs.latest == 4
    lab.append(1, leader_epoch=5)
    assert lab.log.end_offset == 31


def test_after_a_crash_only_segments_from_the_recovery_point_on_are_read() -> None:
    """RC-1"""
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3)
    lab.checkpoint()
    assert lab.recovery_point == bases(lab)[-1]
    before = lab.read_bytes()
    lab.crash()
    assert lab.report.recovered_segments == 1
    assert lab.read_bytes() == before


def test_torn_tail_is_truncated_at_the_last_valid_batch() -> None:
    """RC-1"""
    lab = LogLab()
    lab.append(2)
    good = lab.read_bytes()
    lab.append(2)
    segment = lab.log.local_log.segments.active
    segment.log.file().truncate(segment.size - 3)
    lab.crash()
    assert lab.report.cut_bytes == len(good) - 3
    assert "at 96" in lab.report.reasons[0] or str(len(good)) in lab.report.reasons[0]
    assert lab.read_bytes() == good
    assert lab.append(1).base_offset == 2


def test_corruption_in_the_middle_drops_later_segments() -> None:
    """RC-1"""
    lab = LogLab(SMALL)
    for _ in range(12):
        lab.append(3)
    lab.recovery_point = 0
    second = lab.log.local_log.segments[1]
    second.log.file().write([b"\xff\xff"], second.size - 2)
    lab.crash()
    assert len(bases(lab)) == 2
    assert lab.report.dropped_segments > 0
    end = lab.log.end_offset
    assert [offset for offset, _ in lab.contents()] == list(range(end))
    assert lab.append(1).base_offset == end


def test_old_message_formats_are_rejected_and_never_truncated() -> None:
    """formats 4: a segment of magic 1 is valid data, not a torn tail."""
    import zlib

    lab = LogLab()
    message = b"\x01\x00" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01v"
    entry = bytes(8) + (len(message) + 4).to_bytes(4, "big")
    entry += zlib.crc32(message).to_bytes(4, "big") + message
    lab.log.local_log.segments.active.log.file().write([entry], 0)
    with pytest.raises(UnsupportedMagic, match="not supported"):
        lab.crash()
    status = lab.disk.status(FOLDER / file_name(0, LOG))
    assert status is not None
    assert status.size == len(entry)


@pytest.mark.parametrize("name", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "garbage", "torn"])
def test_missing_or_corrupt_index_is_rebuilt(name: str, how: str) -> None:
    """RC-1"""
    lab = LogLab(SMALL)
    for n in range(10):
        lab.append(records(b"x" * 50, timestamp=START_MS + n))
    lab.log.close()
    lab.checkpoint()
    path = FOLDER / file_name(bases(lab)[1], name)
    content = lab.disk.open(path).read(1 << 20, 0)
    if how == "missing":
        lab.disk.remove(path)
    elif how == "garbage":
        lab.disk.open(path).write([b"\x7f" * len(content)], 0)
    else:
        lab.disk.open(path).truncate(len(content) - 1)
    lab.open(was_clean=True)
    assert [offset for offset, _ in lab.contents()] == list(range(10))
    assert [segment.largest_timestamp for segment in lab.log.local_log.segments][-1] == START_MS + 9
    lab.log.close()
    assert lab.disk.open(path).read(1 << 20, 0) == content


@pytest.mark.parametrize("slot", [1, 3, -1])
@pytest.mark.parametrize("position", [-400, 1, 400, 590, 1 << 30])
def test_wrong_index_entry_skips_no_record(slot: int, position: int) -> None:
    """Only the last entry is checked when an index is opened, the others when they are used."""
    lab = LogLab(TopicSettings(index_interval_bytes=0))
    for _ in range(8):
        lab.append(records(b"x" * 50))
    lab.log.close()
    lab.checkpoint()
    path = path_of(FOLDER, 0, INDEX)
    sound = read_whole(lab.disk, path)
    assert sound is not None
    entries = [list(each) for each in struct.iter_unpack(">ii", sound)]
    entries[slot][1] = position
    content = b"".join(struct.pack(">ii", *entry) for entry in entries)
    lab.disk.open(path).write([content], 0)
    lab.open(was_clean=True)
    assert lab.log.end_offset == 8
    for offset in range(8):
        assert [each for each, _ in lab.contents(offset)] == list(range(offset, 8))
    assert lab.failures == []


def test_truncation_removes_records_and_appends_continue_there() -> None:
    """EP-2, EP-6"""
    lab = LogLab(SMALL)
    for epoch in range(10):
        lab.append(3, leader_epoch=epoch)
    lab.log.truncate_to(15, now_ms=lab.now_ms)
    assert lab.log.end_offset == 15
    assert lab.log.high_watermark == 15
    assert lab.log.epochs.latest == 4
    assert [offset for offset, _ in lab.contents()] == list(range(15))
    assert lab.append(2, leader_epoch=12).base_offset == 15
    assert [offset for offset, _ in lab.contents(15)] == [15, 16]
    after = lab.contents()
    lab.crash()
    assert lab.contents() == after


def test_truncation_inside_a_batch_ends_the_log_before_it_even_after_a_restart() -> None:
    """EP-6"""
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3)
    lab.log.truncate_to(16, now_ms=lab.now_ms)
    assert lab.log.end_offset == 15
    lab.reopen()
    assert lab.log.end_offset == 15


def test_truncation_lowers_the_recovery_point_first() -> None:
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3)
    lab.reopen()
    assert lab.recovery_point == 30
    lab.log.truncate_to(16, now_ms=lab.now_ms)
    assert lab.recovery_point in bases(lab)
    assert lab.recovery_point <= 15


def test_log_can_be_truncated_fully_and_start_at_another_offset() -> None:
    """EP-7"""
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3, producer=None)
    lab.log.start_over(500, now_ms=lab.now_ms)
    assert bases(lab) == [500]
    assert lab.append(2).base_offset == 500
    lab.reopen()
    assert (lab.log.log_start_offset, lab.log.end_offset) == (500, 502)


def test_delete_records_hides_records_and_later_deletes_segments() -> None:
    """LSO-3, DR-1, RT-5"""
    lab = LogLab(SMALL)
    for _ in range(10):
        lab.append(3)
    with pytest.raises(OffsetOutOfRange):
        lab.log.delete_records_below(31)
    lab.log.delete_records_below(13)
    with pytest.raises(OffsetOutOfRange):
        lab.log.read(12, max_bytes=1, bound=ReadBound.LOG_END)
    assert [offset for offset, _ in lab.contents()] == list(range(13, 30))
    first = bases(lab)
    assert lab.log.apply_retention(lab.now_ms) > 0
    assert bases(lab)[0] <= 13 < bases(lab)[1]
    assert lab.log.log_start_offset == 13
    deleted = [name for name in lab.disk.names(FOLDER) if name.endswith(".deleted")]
    assert f"{first[0]:020d}.log.deleted" in deleted
    assert lab.removals.take_due(lab.now_ms + 999, limit=100) == []
    assert len(lab.removals.take_due(lab.now_ms + 1000, limit=100)) == len(deleted)


def test_retention_by_time_deletes_whole_segments_and_rolls_the_active_one() -> None:
    """RT-1, RT-2, RT-4"""
    lab = lab_with(retention_ms=1000)
    for n in range(10):
        lab.append(records(b"x" * 80, timestamp=START_MS + n * 300))
    lab.now_ms = START_MS + 3000
    lab.log.apply_retention(lab.now_ms)
    assert lab.log.log_start_offset == bases(lab)[0] > 0
    lab.now_ms = START_MS + 10_000
    lab.log.apply_retention(lab.now_ms)
    assert bases(lab) == [10]
    assert lab.contents() == []
    assert lab.log.apply_retention(lab.now_ms) == 0
    assert lab.append(1).base_offset == 10


def test_record_with_a_future_timestamp_keeps_its_segment() -> None:
    """RT-2"""
    lab = lab_with(retention_ms=1000, message_timestamp_after_max_ms=1 << 50)
    lab.append(records(b"x" * 250, timestamp=START_MS + 10**9))
    lab.append(records(b"y" * 250, timestamp=START_MS))
    assert len(bases(lab)) == 2
    lab.now_ms = START_MS + 10**6
    assert lab.log.apply_retention(lab.now_ms) == 0


def test_retention_by_size_keeps_at_least_the_limit() -> None:
    """RT-3"""
    lab = lab_with(retention_bytes=800)
    for _ in range(20):
        lab.append(3)
    lab.log.apply_retention(lab.now_ms)
    assert 800 <= lab.log.size_bytes < 800 + SMALL.segment_bytes


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    """RT-1"""
    lab = lab_with(retention_ms=0)
    for _ in range(10):
        batch = bytearray(build_batch(records(b"x" * 80, timestamp=START_MS - 5000)))
        lab.log.append_as_leader(batch, leader_epoch=0, now_ms=lab.now_ms)
    lab.log.raise_high_watermark(3)
    lab.log.apply_retention(lab.now_ms)
    assert lab.log.log_start_offset <= 3
    assert lab.log.end_offset == 10


def test_compact_policy_alone_never_deletes_segments() -> None:
    """CP-9"""
    lab = lab_with(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1)
    for _ in range(10):
        lab.append(3)
    assert lab.log.apply_retention(lab.now_ms + 10**9) == 0


def test_failed_write_changes_nothing_and_takes_the_directory_offline() -> None:
    """RC-5"""
    lab = LogLab()
    lab.append(2)
    before = lab.read_bytes()
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.fail_next_write("*.log")
    with pytest.raises(StorageError):
        lab.append(2)
    assert len(lab.failures) == 1
    assert lab.log.end_offset == 2
    assert lab.read_bytes() == before
    lab.log.fence(lab.failures[0])
    with pytest.raises(StorageError):
        lab.append(1)
    with pytest.raises(StorageError):
        lab.log.read(0, max_bytes=1, bound=ReadBound.LOG_END)


def test_flush_messages_triggers_a_flush_and_raises_the_recovery_point() -> None:
    lab = lab_with(flush_messages=3, segment_bytes=1 << 20)
    lab.append(2)
    assert not lab.log.needs_flush
    lab.append(1)
    assert lab.log.needs_flush
    done: list[StorageError | None] = []
    lab.log.flush(done.append)
    assert done == [None]
    assert lab.log.recovery_point == 3


def test_flush_ms_triggers_a_flush() -> None:
    lab = lab_with(flush_ms=1000, segment_bytes=1 << 20)
    lab.append(2)
    lab.log.flush_if_old(lab.now_ms)
    lab.log.flush_if_old(lab.now_ms + 999)
    assert lab.log.recovery_point == 0
    lab.log.flush_if_old(lab.now_ms + 1000)
    assert lab.log.recovery_point == 2


def test_a_log_of_many_segments_needs_few_open_files() -> None:
    lab = LogLab(SMALL, max_open_files=4)
    for _ in range(60):
        lab.append(3)
    assert [offset for offset, _ in lab.contents()] == list(range(180))
    assert lab.files.open_count <= 4


def test_failed_index_write_takes_the_directory_offline() -> None:
    lab = LogLab(TopicSettings(index_interval_bytes=0))
    for _ in range(3):
        lab.append(2)
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.fail_next_write("*.index")
    with pytest.raises(StorageError):
        lab.log.flush()
    assert len(lab.failures) == 1
    assert lab.log.recovery_point == 0


def test_flush_after_another_failed_sync_does_not_raise_the_recovery_point() -> None:
    """The kernel reports lost pages once, to the first caller of fsync."""
    held = HeldExecutor(random.Random(1))
    lab = LogLab(executor=held)
    for _ in range(3):
        lab.append(2)
    done: list[StorageError | None] = []
    lab.log.flush(done.append)
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.fail_next_sync("*.log")
    with pytest.raises(StorageError):
        lab.log.truncate_to(4, now_ms=lab.now_ms)
    (failure,) = lab.failures
    lab.log.fence(failure)
    held.finish()
    assert done == [failure]
    assert lab.log.recovery_point == 0


def test_corrupt_transaction_index_fails_only_read_committed_fetches() -> None:
    lab = LogLab()
    lab.append(1, producer=(7, 0, 0), is_transactional=True)
    lab.end_transaction(7, commit=False)
    lab.disk.open(path_of(FOLDER, 0, TRANSACTION_INDEX)).write([b"\1"], 0)
    with pytest.raises(UnreadableLog):
        lab.log.read(0, max_bytes=1000, bound=ReadBound.LAST_STABLE)
    assert lab.failures == []
    assert len(lab.contents()) == 1
