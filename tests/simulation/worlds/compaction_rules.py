"""What compaction may remove from a log and what it must keep, record by record.

It may empty batches and drop them, but never move an offset or change a record; and of every key
the newest committed value stays, unless that is a tombstone whose delete horizon may have passed
(CP-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.records.control_batches import read_control
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.simulation.fakes.batches import Batch, Broken


def expect_compacted(
    history: Sequence[Batch], found: Sequence[Batch], *, start: int, floor: int
) -> None:
    """What is found comes from the history, and below the floor no newest value is missing."""
    _expect_taken_from(history, found)
    newest_left: dict[bytes | None, int] = {}
    for batch in found:
        for record in _data_records(batch):
            newest_left[record.key] = record.offset or 0
    safe = [batch for batch in history if batch.next <= floor]
    for key, record in _newest_committed(safe).items():
        offset = record.offset or 0
        if offset >= start and record.value is not None and newest_left.get(key, -1) < offset:
            raise Broken(f"the newest value of {key!r}, at {offset}, is lost below {floor}")


def _expect_taken_from(history: Sequence[Batch], found: Sequence[Batch]) -> None:
    originals = {batch.base: batch for batch in history}
    for batch in found:
        original = originals.get(batch.base)
        if original is None or original.next != batch.next:
            raise Broken(f"batch {batch.base} to {batch.next - 1} was never appended")
        if batch.content == original.content:
            continue
        known = {record.offset: record for record in _records(original)}
        for record in _records(batch):
            if known.get(record.offset) != record:
                raise Broken(f"compaction changed the record at {record.offset}")


def _newest_committed(batches: Sequence[Batch]) -> dict[bytes | None, Record]:
    newest: dict[bytes | None, Record] = {}
    undecided: dict[int, list[Record]] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            control = read_control(batch.content, header)
            records = undecided.pop(header.producer_id, [])
            if control is None or control.is_abort:
                continue
        elif header.is_transactional:
            undecided.setdefault(header.producer_id, []).extend(_records(batch))
            continue
        else:
            records = list(_records(batch))
        for record in records:
            known = newest.get(record.key)
            if known is None or (record.offset or 0) > (known.offset or 0):
                newest[record.key] = record
    return newest


def _data_records(batch: Batch) -> Iterator[Record]:
    return iter(()) if batch.header.is_control else _records(batch)


def _records(batch: Batch) -> Iterator[Record]:
    return read_records(batch.content, batch.header)
