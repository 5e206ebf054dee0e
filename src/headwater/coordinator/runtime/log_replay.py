"""Decode a part of a partition's log for replay: records and markers in order.

Pure, so that it can run on a thread. A truncated batch at the end is left to the next slice; the
caller makes sure that the first batch is complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.common.exceptions import TruncatedBatch
from headwater.common.ids import ProducerId
from headwater.coordinator.records.record_serde import RecordSerde, UnknownRecord
from headwater.coordinator.runtime.coordinator_effects import StateRecord
from headwater.records.batch_header import BatchHeader, Buffer, read_header
from headwater.records.control_batches import read_control
from headwater.records.record_reader import read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record, its offset, and the producer of its transaction."""

    record: StateRecord
    offset: int
    producer_id: ProducerId | None


@dataclass(frozen=True, slots=True)
class LoggedMarker:
    """The marker of a producer's transaction."""

    producer_id: ProducerId
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """A part of a log. The next slice starts at `next_offset`."""

    next_offset: int
    entries: tuple[LoggedRecord | LoggedMarker, ...] = ()
    unknown_types: tuple[int, ...] = ()


def read_slice(content: Buffer, offset: int, codec: RecordSerde) -> LogSlice:
    """Decode the batches in these bytes from an offset on.

    Raises `UnreadableRecord` or `CorruptBatch`.
    """
    entries: list[LoggedRecord | LoggedMarker] = []
    unknown: dict[int, None] = {}
    next_offset = offset
    for position, header in _whole_batches(content):
        if header.is_control:
            control = read_control(content, header, position)
            if control is not None and control.ends_transaction:
                producer_id = ProducerId(header.producer_id)
                entries.append(LoggedMarker(producer_id, not control.is_abort))
        else:
            for entry in _records(content, position, header, codec):
                if isinstance(entry, UnknownRecord):
                    unknown[entry.record_type] = None
                elif entry.offset >= offset:
                    entries.append(entry)
        next_offset = header.last_offset + 1
    return LogSlice(next_offset=next_offset, entries=tuple(entries), unknown_types=tuple(unknown))


def _whole_batches(content: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < len(content):
        try:
            header = read_header(content, position)
        except TruncatedBatch:
            return
        yield position, header
        position += header.size_bytes


def _records(
    content: Buffer, position: int, header: BatchHeader, codec: RecordSerde
) -> Iterator[LoggedRecord | UnknownRecord]:
    producer_id = ProducerId(header.producer_id) if header.is_transactional else None
    for each in read_records(content, header, position):
        record = codec.decode(each.key, each.value)
        if isinstance(record, UnknownRecord):
            yield record
            continue
        assert each.offset is not None, "records of a log have offsets"
        yield LoggedRecord(record=record, offset=each.offset, producer_id=producer_id)
