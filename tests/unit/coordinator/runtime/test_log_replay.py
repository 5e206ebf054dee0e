"""Decoding a log for replay."""

import pytest

from headwater.common.exceptions import UnreadableRecord
from headwater.common.ids import ProducerId
from headwater.coordinator.records.offset_records import OffsetCommitKey, OffsetCommitRecord
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.log_replay import (
    LoggedMarker,
    LoggedRecord,
    LogSlice,
    read_slice,
)
from headwater.coordinator.runtime.record_batches import batch_of, marker_of
from headwater.records.batch_building import build_batch
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record

PRODUCER = TransactionalProducer(ProducerId(7), 2)


def tombstone(number: int) -> OffsetCommitRecord:
    return OffsetCommitRecord(OffsetCommitKey(group="g", topic="t", partition=number), None)


def batch(base_offset: int, *numbers: int, producer: TransactionalProducer | None = None) -> bytes:
    made = batch_of([tombstone(number) for number in numbers], GROUP_RECORDS, producer, now_ms=5)
    return base_offset.to_bytes(8, "big") + made[8:]


def logged(number: int, offset: int, producer_id: ProducerId | None = None) -> LoggedRecord:
    return LoggedRecord(record=tombstone(number), offset=offset, producer_id=producer_id)


def test_records_and_markers_keep_their_order() -> None:
    marker = bytes(marker_of(PRODUCER, 4, is_commit=True, now_ms=5))
    content = batch(10, 0, 1, producer=PRODUCER) + (12).to_bytes(8, "big") + marker[8:]
    assert read_slice(content + batch(13, 2), 10, GROUP_RECORDS) == LogSlice(
        next_offset=14,
        entries=(
            logged(0, 10, ProducerId(7)),
            logged(1, 11, ProducerId(7)),
            LoggedMarker(ProducerId(7), is_commit=True),
            logged(2, 13),
        ),
    )


def test_an_abort_is_a_marker_too() -> None:
    marker = marker_of(PRODUCER, 4, is_commit=False, now_ms=5)
    found = read_slice(marker, 0, GROUP_RECORDS)
    assert found.entries == (LoggedMarker(ProducerId(7), is_commit=False),)


def test_a_truncated_batch_is_left_to_the_next_slice() -> None:
    whole, cut = batch(0, 0), batch(1, 1)
    for length in range(len(cut)):
        found = read_slice(whole + cut[:length], 0, GROUP_RECORDS)
        assert found == LogSlice(next_offset=1, entries=(logged(0, 0),))


def test_records_before_the_requested_offset_are_skipped() -> None:
    found = read_slice(batch(10, 0, 1, 2), 11, GROUP_RECORDS)
    assert found == LogSlice(next_offset=13, entries=(logged(1, 11), logged(2, 12)))


def test_a_producer_without_a_transaction_makes_nothing_pending() -> None:
    key, value = GROUP_RECORDS.encode(tombstone(0))
    record = Record(key=key, value=value, timestamp=5)
    content = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    assert read_slice(content, 0, GROUP_RECORDS).entries == (logged(0, 0),)


def test_unknown_record_types_are_reported_once_and_skipped() -> None:
    records = [Record(key=b"\0\x63", timestamp=5)] * 2
    assert read_slice(build_batch(records), 0, GROUP_RECORDS) == LogSlice(
        next_offset=2, unknown_types=(99,)
    )


def test_a_batch_emptied_by_compaction_only_moves_the_offset() -> None:
    content = build_batch([], last_offset=8)
    assert read_slice(content, 0, GROUP_RECORDS) == LogSlice(next_offset=9)


def test_a_marker_emptied_by_compaction_only_moves_the_offset() -> None:
    content = build_batch([], last_offset=8, producer_id=7, is_transactional=True, is_control=True)
    assert read_slice(content, 0, GROUP_RECORDS) == LogSlice(next_offset=9)


def test_control_records_that_end_no_transaction_are_skipped() -> None:
    marker = bytearray(
        build_marker(
            ControlType.COMMIT, producer_id=7, producer_epoch=2, coordinator_epoch=4, timestamp=5
        )
    )
    position = marker.rindex(b"\0\0\0\1")
    marker[position + 3] = 2
    assert read_slice(marker, 0, GROUP_RECORDS) == LogSlice(next_offset=1)


def test_an_unreadable_record_is_rejected() -> None:
    content = build_batch([Record(key=b"\0\1", timestamp=5)])
    with pytest.raises(UnreadableRecord):
        read_slice(content, 0, GROUP_RECORDS)
