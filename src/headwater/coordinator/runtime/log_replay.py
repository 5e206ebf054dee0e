"""Bytes of a partition's log as what a shard replays: records and markers, in their order.

Pure, so that it can be done by a thread. A batch that the bytes end in is left to the next slice;
whoever cut them has made sure that the first one is whole.
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
    """A record, where it stands, and whose transaction it belongs to."""

    record: StateRecord
    offset: int
    producer_id: ProducerId | None


@dataclass(frozen=True, slots=True)
class LoggedMarker:
    """The end of a producer's transaction."""

    producer_id: ProducerId
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Some of a log. The next slice begins at `next_offset`."""

    next_offset: int
    entries: tuple[LoggedRecord | LoggedMarker, ...] = ()
    unknown_types: tuple[int, ...] = ()


def read_slice(content: Buffer, offset: int, codec: RecordSerde) -> LogSlice:
    """What stands in these bytes from an offset on.

    `UnreadableRecord` or `CorruptBatch` if it cannot be read.
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
