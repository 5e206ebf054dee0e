"""Check of indexes that do and do not fit their log."""

import struct

from headwater.storage.index.index_check import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndexCheck,
    TimeIndexCheck,
    file_problems,
)
from headwater.storage.log.log_check import CheckedBatch, Finding, check_log
from tests.segments import START_MS, Bytes, SegmentBytes, three_batches


def offset_findings(segment: SegmentBytes) -> list[tuple[int, str]]:
    return findings(segment, OffsetIndexCheck(Bytes(segment.index), "x", segment.base_offset))


def time_findings(segment: SegmentBytes) -> list[tuple[int, str]]:
    check = TimeIndexCheck(Bytes(segment.time_index), "x", segment.base_offset)
    return findings(segment, check)


def findings(
    segment: SegmentBytes, check: OffsetIndexCheck | TimeIndexCheck
) -> list[tuple[int, str]]:
    found: list[Finding] = []
    for item in check_log(Bytes(segment.log), "x.log", segment.base_offset):
        if isinstance(item, CheckedBatch):
            found += check.after(item)
    found += check.at_end()
    return [(finding.position, finding.reason) for finding in found]


def test_indexes_that_fit_their_log_have_no_findings() -> None:
    segment = three_batches(base_offset=1000)
    assert offset_findings(segment) == []
    assert time_findings(segment) == []


def test_the_zero_tail_of_an_active_index_is_ignored() -> None:
    segment = three_batches()
    segment.index += bytes(8 * 5000)
    segment.time_index += bytes(12 * 5000)
    assert offset_findings(segment) == []
    assert time_findings(segment) == []
    assert list(file_problems(Bytes(segment.index), OFFSET_ENTRY, "x")) == []
    assert list(file_problems(Bytes(segment.time_index), TIME_ENTRY, "x")) == []


def test_an_entry_that_points_into_a_batch_is_found() -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.index, 4, segment.positions[1] + 1)
    assert offset_findings(segment) == [
        (0, f"points at position {segment.positions[1] + 1}, where no batch begins")
    ]


def test_entry_with_an_offset_before_its_batch_ends_is_reported() -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.index, 8, 4)
    ((at, reason),) = offset_findings(segment)
    assert at == 8
    assert reason == f"offset 4 for position {segment.positions[2]}, whose batch ends with 5"


def test_entry_may_have_the_last_offset_of_a_later_batch() -> None:
    """Brokers before 4.0 wrote one entry for an append of several batches."""
    segment = three_batches()
    segment.index = bytearray(struct.pack(">ii", 5, segment.positions[1]))
    assert offset_findings(segment) == []


def test_entry_with_an_offset_that_ends_no_later_batch_is_reported() -> None:
    segment = three_batches()
    for offset in (4, 6):
        segment.index = bytearray(struct.pack(">ii", offset, segment.positions[1]))
        assert offset_findings(segment) == [
            (0, f"offset {offset} is not the last offset of a batch")
        ]


def test_entries_that_do_not_rise_are_found() -> None:
    segment = three_batches()
    segment.index[8:] = segment.index[:8]
    ((at, reason),) = offset_findings(segment)
    assert at == 8
    assert reason.endswith("do not increase")


def test_an_entry_past_the_last_batch_is_found() -> None:
    segment = three_batches()
    segment.index += struct.pack(">ii", 9, len(segment.log))
    assert offset_findings(segment) == [
        (16, f"points at position {len(segment.log)}, past the last batch")
    ]


def test_index_truncated_inside_an_entry_is_reported() -> None:
    (finding,) = file_problems(Bytes(three_batches().index[:-3]), OFFSET_ENTRY, "x")
    assert finding.reason == "size 13 is not a multiple of 8, incomplete entry"


def test_entries_after_the_zero_tail_are_found() -> None:
    index = three_batches().index
    (finding,) = file_problems(Bytes(index + bytes(8) + index), OFFSET_ENTRY, "x")
    assert finding.position == 16


def test_timestamp_that_was_not_the_largest_is_reported() -> None:
    segment = three_batches()
    struct.pack_into(">q", segment.time_index, 0, START_MS + 1)
    assert time_findings(segment) == [
        (
            0,
            f"timestamp {START_MS + 1} is not the largest up to offset 2, which is {START_MS + 2}",
        )
    ]


def test_timestamps_that_do_not_rise_are_found() -> None:
    segment = three_batches()
    segment.time_index[12:] = struct.pack(">qi", START_MS + 2, 5)
    ((at, reason),) = time_findings(segment)
    assert at == 12
    assert reason.endswith("do not increase")


def test_a_time_entry_past_the_last_batch_is_found() -> None:
    segment = three_batches()
    segment.time_index += struct.pack(">qi", START_MS + 100, 100)
    assert time_findings(segment) == [(24, "offset 100 is past the last batch")]


def test_an_entry_that_repeats_a_position_is_found() -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.index, 12, segment.positions[1])
    ((at, reason),) = offset_findings(segment)
    assert at == 8
    assert reason.endswith("do not increase")
