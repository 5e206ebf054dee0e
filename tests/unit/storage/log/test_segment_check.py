"""Log, indexes and records of a segment, checked together."""

import struct

from headwater.records.record import Record
from headwater.storage.log.log_check import CheckedBatch, Finding
from headwater.storage.log.segment_check import SegmentFiles, check_segment, open_batch
from tests.segments import START_MS, Bytes, SegmentBytes, batch, marker, texts, three_batches


def files_of(segment: SegmentBytes) -> SegmentFiles:
    return SegmentFiles(
        name="x",
        base_offset=segment.base_offset,
        log=Bytes(segment.log),
        index=Bytes(segment.index),
        time_index=Bytes(segment.time_index),
    )


def findings(files: SegmentFiles) -> list[Finding]:
    return [item for item in check_segment(files) if isinstance(item, Finding)]


def only_batch(content: bytes | bytearray) -> tuple[SegmentFiles, CheckedBatch]:
    files = SegmentFiles(name="x", base_offset=0, log=Bytes(content))
    (checked,) = (item for item in check_segment(files) if isinstance(item, CheckedBatch))
    return files, checked


def test_valid_segment_has_no_findings() -> None:
    assert findings(files_of(three_batches())) == []


def test_findings_name_the_file_that_they_are_in() -> None:
    segment = three_batches()
    segment.log[70] ^= 1
    segment.index += struct.pack(">ii", 9, 10_000)
    segment.time_index += struct.pack(">qi", START_MS + 9, 9) + b"\1"
    assert [(finding.file, finding.position) for finding in findings(files_of(segment))] == [
        ("x.timeindex", 37),
        ("x.log", 0),
        ("x.index", 16),
        ("x.timeindex", 24),
    ]


def test_indexes_are_not_compared_when_the_base_offset_is_unknown() -> None:
    segment = three_batches(base_offset=100)
    files = SegmentFiles(
        name="copy", base_offset=None, log=Bytes(segment.log), index=Bytes(segment.index)
    )
    assert findings(files) == []


def test_the_records_of_a_batch_have_their_offsets() -> None:
    opened = list(open_batch(*only_batch(batch(40, texts("a", "b")))))
    assert [(item.offset, item.value) for item in opened if isinstance(item, Record)] == [
        (40, b"a"),
        (41, b"b"),
    ]


def test_a_batch_with_a_wrong_crc_is_not_opened() -> None:
    content = bytearray(batch(0, texts("a")))
    content[-2] ^= 1
    assert list(open_batch(*only_batch(content))) == []


def test_records_are_yielded_up_to_the_first_unreadable_one() -> None:
    payload = texts("a", "b")[0] + b"\x7f"
    good, bad = open_batch(*only_batch(batch(0, texts("a", "b"), payload=payload + bytes(20))))
    assert isinstance(good, Record)
    assert isinstance(bad, Finding)


def test_marker_without_content_is_reported() -> None:
    nameless = batch(0, texts("a"), attributes=0x30)
    (finding,) = open_batch(*only_batch(nameless))
    assert isinstance(finding, Finding)
    assert [type(item) for item in open_batch(*only_batch(marker(0, commits=True)))] == [Record]
