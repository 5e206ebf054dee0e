"""Records as a client of a simulated cluster reads them, batch by batch.

Note: a response may start before the requested offset, and its last batch may be truncated; the
client handles both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.records.batch_header import read_header
from headwater.records.control_batches import read_control
from headwater.records.record_reader import read_records
from headwater.replication.partition import Partition
from headwater.storage.log.unified_log import ReadBound

_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a reader needs of a batch."""

    base_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool
    is_abort: bool | None
    """Of a marker only: whether its transaction is aborted."""
    values: dict[int, bytes] = field(default_factory=dict)
    content: bytes


def records_of(log: bytes) -> list[Batch]:
    """All complete batches."""
    found, position = [], 0
    while position < len(log):
        header = read_header(log, position)
        content = log[position : position + header.size_bytes]
        position += header.size_bytes
        if len(content) < header.size_bytes:
            break
        control = read_control(content, header) if header.is_control else None
        records = [] if header.is_control else list(read_records(content, header))
        found.append(
            Batch(
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                producer_id=header.producer_id,
                is_transactional=header.is_transactional,
                is_abort=None if control is None else control.is_abort,
                values={each.offset or 0: each.value or b"" for each in records},
                content=content,
            )
        )
    return found


def committed_only(
    batches: Sequence[Batch], aborted: Iterable[tuple[int, int]], position: int
) -> dict[int, bytes]:
    """What a read_committed consumer makes of a response and its aborted transactions."""
    coming = sorted(aborted, key=lambda each: each[1])
    undone: dict[int, None] = {}
    found: dict[int, bytes] = {}
    for batch in batches:
        while coming and coming[0][1] <= batch.last_offset:
            undone[coming.pop(0)[0]] = None
        if batch.is_abort is not None:
            if batch.is_abort:
                undone.pop(batch.producer_id, None)
        elif not (batch.is_transactional and batch.producer_id in undone):
            found.update(batch.values)
    return {offset: value for offset, value in found.items() if offset >= position}


def log_of(hosted: Partition) -> list[Batch]:
    """All batches of a broker's log."""
    log = hosted.open_log()
    found: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        read = log.read(offset, max_bytes=_NO_LIMIT, bound=ReadBound.LOG_END).range
        assert read is not None
        found += records_of(read.read())
        offset = found[-1].last_offset + 1
    return found
