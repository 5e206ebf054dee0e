"""Check of valid, torn and corrupt logs."""

import struct

import pytest
from crc32c import crc32c

from headwater.common.exceptions import TruncatedBatch, UnsupportedMagic
from headwater.storage.log.log_check import CHUNK_BYTES, CheckedBatch, Finding, ZeroTail, check_log
from tests.segments import Bytes, batch, texts, three_batches


def reasons(log: bytes | bytearray, base_offset: int = 0) -> list[tuple[int, str]]:
    items = check_log(Bytes(log), "x.log", base_offset)
    return [(item.position, item.reason) for item in items if isinstance(item, Finding)]


def test_valid_log_yields_its_batches_without_findings() -> None:
    segment = three_batches()
    items = list(check_log(Bytes(segment.log), "x.log", 0))
    batches = [item for item in items if isinstance(item, CheckedBatch)]
    assert items == batches
    assert [item.position for item in batches] == segment.positions
    assert [item.header.last_offset for item in batches] == [1, 2, 5]
    assert all(item.crc_matches for item in batches)


def test_empty_log_is_valid() -> None:
    assert list(check_log(Bytes(b""), "x.log", 0)) == []


def test_flipped_bit_is_a_wrong_crc_and_the_check_continues() -> None:
    segment = three_batches()
    segment.log[segment.positions[1] + 65] ^= 1
    items = list(check_log(Bytes(segment.log), "x.log", 0))
    assert [item.crc_matches for item in items if isinstance(item, CheckedBatch)] == [
        True,
        False,
        True,
    ]
    ((position, reason),) = reasons(segment.log)
    assert position == segment.positions[1]
    assert reason.startswith("wrong CRC")


def test_truncated_last_batch_is_a_torn_tail_and_earlier_batches_stay() -> None:
    segment = three_batches()
    start = segment.positions[2]
    for end in range(start + 1, len(segment.log)):
        *before, last = check_log(Bytes(segment.log[:end]), "x.log", 0)
        assert len(before) == 2
        assert isinstance(last, Finding)
        assert last.position == start
        assert last.reason.startswith("torn tail")


@pytest.mark.parametrize("length", [2**31 - 1, 1 << 20, 10_000])
def test_length_beyond_the_file_is_a_torn_tail_and_not_a_large_read(length: int) -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.log, segment.positions[1] + 8, length)
    ((position, reason),) = reasons(segment.log)
    assert position == segment.positions[1]
    assert reason.startswith("torn tail: the batch claims")


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_length_shorter_than_a_header_ends_the_check(length: int) -> None:
    segment = three_batches()
    struct.pack_into(">i", segment.log, segment.positions[1] + 8, length)
    ((position, reason),) = reasons(segment.log)
    assert position == segment.positions[1]
    assert reason.startswith("unreadable from here")


def test_a_huge_batch_is_checked_in_chunks() -> None:
    payload = bytes(3 * CHUNK_BYTES + 17)
    log = Bytes(batch(0, texts("a"), payload=payload) + batch(1, texts("b")))
    items = list(check_log(log, "x.log", 0))
    assert [item.crc_matches for item in items if isinstance(item, CheckedBatch)] == [True, True]
    assert log.largest_read <= CHUNK_BYTES


def test_an_unknown_codec_is_named() -> None:
    assert reasons(batch(0, texts("a"), attributes=6)) == [(0, "unknown compression codec 6")]


def test_decreasing_offsets_are_reported() -> None:
    log = batch(10, texts("a", "b")) + batch(11, texts("c"))
    ((_, reason),) = reasons(log)
    assert reason == "base offset 11, expected at least 12"


def test_a_batch_below_the_offset_in_the_file_name_is_found() -> None:
    assert len(reasons(batch(4, texts("a")), base_offset=5)) == 1


def test_gaps_in_the_offsets_are_legal() -> None:
    """CP-3: compaction leaves gaps, and offsets never change."""
    assert reasons(batch(10, texts("a")) + batch(500, texts("b"))) == []


def test_more_records_than_offsets_are_found() -> None:
    log = batch(0, texts("a", "b"))
    # The same batch once more, with the delta of its last offset lowered under a right CRC.
    lowered = bytearray(log)
    struct.pack_into(">i", lowered, 23, 0)
    struct.pack_into(">I", lowered, 17, crc32c(lowered[21:]))
    assert reasons(lowered) == [(0, "2 records do not fit offsets 0 to 0")]


def test_preallocated_zeros_after_the_last_batch_are_not_corruption() -> None:
    segment = three_batches()
    *_, last = check_log(Bytes(segment.log + bytes(3 * CHUNK_BYTES)), "x.log", 0)
    assert last == ZeroTail(len(segment.log), 3 * CHUNK_BYTES)


def test_zeros_followed_by_data_are_corruption() -> None:
    segment = three_batches()
    ((position, reason),) = reasons(segment.log + bytes(500) + b"x")
    assert position == len(segment.log)
    assert reason.startswith("unreadable from here to the end (501 bytes)")


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0" + bytes(range(200)), b"#!/bin/sh\n" * 20],
)
def test_foreign_file_is_rejected_as_a_whole(content: bytes) -> None:
    with pytest.raises(UnsupportedMagic):
        list(check_log(Bytes(content), "x.log", 0))


def test_file_shorter_than_a_header_is_rejected_as_a_whole() -> None:
    with pytest.raises(TruncatedBatch):
        list(check_log(Bytes(three_batches().log[:60]), "x.log", 0))
