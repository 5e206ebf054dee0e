"""Control batches: transaction markers, and other types that are only passed on.

A marker is one record in its own batch, and takes an offset like any record. Its key says what it
is; readers must skip types that they do not know.

    key:    int16 version 0, int16 type
    value:  int16 version 0, int32 coordinator epoch   (COMMIT and ABORT only)
"""

import struct
from enum import IntEnum
from typing import Literal, NamedTuple

from headwater.common.exceptions import CorruptBatch
from headwater.common.ids import NO_EPOCH
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.payload import DEFAULT_LIMIT_BYTES
from headwater.records.record import Record
from headwater.records.record_reader import read_records

_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """Type of a control record; the value is its wire form."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """Parsed control record. `type` is a plain number if unknown."""

    type: ControlType | int
    coordinator_epoch: int | None

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ControlType.ABORT, ControlType.COMMIT)

    @property
    def is_abort(self) -> bool:
        return self.type == ControlType.ABORT


def build_marker(
    kind: Literal[ControlType.ABORT, ControlType.COMMIT],
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytes:
    """Build the marker that commits or aborts a transaction in a partition (TX-6)."""
    record = Record(
        key=_KEY.pack(_VERSION, kind),
        value=_MARKER_VALUE.pack(_VERSION, coordinator_epoch),
        timestamp=timestamp,
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_control(
    buffer: Buffer, header: BatchHeader, position: int = 0, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> ControlRecord | None:
    """Read the record of a control batch; None if compaction has emptied the batch."""
    assert header.is_control, "only control batches hold control records"
    record = next(read_records(buffer, header, position, limit_bytes), None)
    return None if record is None else parse_control(record.key, record.value)


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse a control record's key and value. Later versions may only add fields."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record's key is too short")
    _, number = _KEY.unpack_from(key)
    try:
        kind: ControlType | int = ControlType(number)
    except ValueError:
        return ControlRecord(number, None)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(kind, None)
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatch("a transaction marker's value is too short")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return ControlRecord(kind, coordinator_epoch)
