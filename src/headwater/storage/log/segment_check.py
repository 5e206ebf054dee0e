"""Check one segment: its log, its indexes and the records in its batches.

Everything streams: problems are yielded where they are found, so memory does not grow with the
segment.

Note: a check that is stopped early has not reached the end and cannot report index entries that
point past it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.common.exceptions import BatchError
from headwater.records.control_batches import parse_control
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.index.index_check import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    file_problems,
)
from headwater.storage.log.log_check import CheckedBatch, Finding, Item, Readable, check_log


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """Readable files of one segment; a missing index is not checked."""

    name: str
    base_offset: int | None
    log: Readable
    index: Readable | None = None
    time_index: Readable | None = None


def check_segment(files: SegmentFiles) -> Iterator[Item]:
    """Yield every batch, then its problems and those of its index entries."""
    for suffix, index, entry in (
        (".index", files.index, OFFSET_ENTRY),
        (".timeindex", files.time_index, TIME_ENTRY),
    ):
        if index is not None:
            yield from file_problems(index, entry, files.name + suffix)
    checks = _index_checks(files)
    for item in check_log(files.log, f"{files.name}.log", files.base_offset):
        yield item
        if isinstance(item, CheckedBatch):
            for check in checks:
                yield from check.after(item)
    for check in checks:
        yield from check.at_end()


def open_batch(files: SegmentFiles, batch: CheckedBatch) -> Iterator[Record | Finding]:
    """Yield the records of a batch; stop with a finding at the first unreadable one.

    A batch with a wrong CRC yields no records.
    """
    if not batch.crc_matches:
        return
    content = files.log.read(batch.header.size_bytes, batch.position)
    try:
        for record in read_records(content, batch.header):
            if batch.header.is_control:
                parse_control(record.key, record.value)
            yield record
    except BatchError as error:
        yield Finding(file=f"{files.name}.log", position=batch.position, reason=str(error))


def _index_checks(files: SegmentFiles) -> list[IndexCheck]:
    checks: list[IndexCheck] = []
    if files.base_offset is None:  # Entries are relative to it.
        return checks
    if files.index is not None:
        check = OffsetIndexCheck(files.index, f"{files.name}.index", files.base_offset)
        checks.append(check)
    if files.time_index is not None:
        checks.append(
            TimeIndexCheck(files.time_index, f"{files.name}.timeindex", files.base_offset)
        )
    return checks
