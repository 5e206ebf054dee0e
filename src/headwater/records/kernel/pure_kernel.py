"""Record kernel in pure Python: same results and exceptions as the compiled one.

It is used if no C compiler was available, and is the specification that property tests compare the
compiled kernel with. Every function walks all declared records and rejects trailing bytes, even if
the result is known earlier, so that all functions agree on what is corrupt.
"""

import struct
from array import array
from collections.abc import Callable, Iterable

from headwater.common.exceptions import BatchTooLarge, CorruptBatch
from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    MIN_LENGTH,
    BatchHeader,
    Buffer,
    TimestampType,
    sequence_after,
)
from headwater.records.checksum import check_crc, write_crc
from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel.buffers import (
    BinaryBuffers,
    DecodedColumns,
    HeaderBuffers,
    RecordSection,
    RecordsSummary,
    ValidationResult,
)
from headwater.records.kernel.pure_batches import combined_crc as combined_crc
from headwater.records.kernel.pure_batches import last_header as last_header
from headwater.records.kernel.pure_batches import ordinary_header as ordinary_header
from headwater.records.kernel.pure_batches import producer_headers as producer_headers
from headwater.records.kernel.pure_batches import scan as scan
from headwater.records.kernel.pure_batches import valid_run as valid_run
from headwater.records.kernel.pure_columns import BinaryColumn, ViewColumn
from headwater.records.kernel.pure_offset_map import OffsetMap as OffsetMap
from headwater.records.kernel.pure_offset_map import int64
from headwater.records.kernel.pure_offset_map import keep_mask as keep_mask
from headwater.records.kernel.pure_offset_map import map_records as map_records
from headwater.records.kernel.pure_produce import read_single_produce as read_single_produce
from headwater.records.kernel.pure_produce import write_single_produce as write_single_produce
from headwater.records.record_walk import read_record_header, walk_records
from headwater.records.varints import write_varint

INT32_MAX = 2**31 - 1

_BAD_COLUMN = "a column's offsets do not fit its data"


def decode_sections(
    sections: Iterable[RecordSection],
    *,
    first_offset: int,
    expected_bytes: int,  # noqa: ARG001  only the compiled kernel allocates ahead
    checks_crc: bool = False,
    views: bool = False,
) -> DecodedColumns:
    """Decode many batches into columns, without records before `first_offset`.

    Sections are consumed one by one, so that a section decompressed on demand is still in the CPU
    cache when its records are read, and is freed afterwards. If a header says LogAppendTime, every
    record gets its max timestamp. The CRC, if requested, is checked for uncompressed batches only;
    for others the bytes that it covers are not here. With `views`, values stay in the sections'
    buffers, which live as long as the columns.
    """
    offsets, timestamps, attributes = array("q"), array("q"), array("h")
    keys, values = BinaryColumn(), ViewColumn() if views else BinaryColumn()
    header_keys, header_values = BinaryColumn(), BinaryColumn()
    header_offsets = array("i", [0])
    for buffer, start, stop, header in sections:
        assert 0 <= start <= stop <= len(buffer), "a section is inside its buffer"
        if checks_crc and not header.attributes & CODEC_MASK:
            assert start >= HEADER_BYTES, "an uncompressed section follows its header"
            check_crc(buffer, header, start - HEADER_BYTES)
        view = memoryview(buffer)[start:stop]
        if isinstance(values, ViewColumn):
            values.enter(buffer, start)
        has_append_time = header.attributes & APPEND_TIME_FLAG
        for record in walk_records(view, header.record_count):
            offset = int64(header.base_offset + record.offset_delta)
            if offset < first_offset:
                continue
            timestamp = int64(header.base_timestamp + record.timestamp_delta)
            offsets.append(offset)
            timestamps.append(header.max_timestamp if has_append_time else timestamp)
            attributes.append(header.attributes)
            keys.append(view, record.key, record.key_length)
            values.append(view, record.value, record.value_length)
            position = record.headers
            for _ in range(record.header_count):
                key, key_length, value, value_length, position = read_record_header(
                    view, position, record.end
                )
                header_keys.append(view, key, key_length)
                header_values.append(view, value, value_length)
            header_offsets.append(header_keys.row_count)
    return DecodedColumns(
        row_count=len(offsets),
        offsets=bytearray(offsets),
        timestamps=bytearray(timestamps),
        attributes=bytearray(attributes),
        keys=keys.buffers(),
        values=values.buffers(),
        headers=HeaderBuffers(
            validity=None,
            offsets=bytearray(header_offsets),
            keys=header_keys.buffers(),
            values=header_values.buffers(),
            header_count=header_keys.row_count,
        ),
    )


def consumed_records(
    columns: DecodedColumns,
    start: int,
    stop: int,
    topic: str,
    partition: int,
    leader_epoch: int,
) -> list[ConsumerRecord]:
    """Convert rows to `ConsumerRecord`s. The columns must come from the decoder."""
    if not 0 <= start <= stop <= columns.row_count:
        raise IndexError("there are no such rows")
    values = columns.values
    assert isinstance(values, BinaryBuffers), "records need values, not views"
    first_header = memoryview(columns.headers.offsets).cast("B").cast("i")
    return [
        ConsumerRecord(
            topic=topic,
            partition=partition,
            offset=memoryview(columns.offsets).cast("B").cast("q")[row],
            timestamp=memoryview(columns.timestamps).cast("B").cast("q")[row],
            timestamp_type=TimestampType(
                (memoryview(columns.attributes).cast("B").cast("h")[row] & APPEND_TIME_FLAG) >> 3
            ),
            key=_content(columns.keys, row),
            value=_content(values, row),
            headers=tuple(
                (
                    (_content(columns.headers.keys, index) or b"").decode(
                        "utf-8", "surrogateescape"
                    ),
                    _content(columns.headers.values, index),
                )
                for index in range(first_header[row], first_header[row + 1])
            ),
            leader_epoch=leader_epoch,
        )
        for row in range(start, stop)
    ]


def encode_batches(
    row_count: int,
    timestamps: Buffer,
    keys: BinaryBuffers | None,
    values: BinaryBuffers | None,
    headers: HeaderBuffers | None,
    *,
    template: BatchHeader,
    batch_bytes: int,
    expected_bytes: int,  # noqa: ARG001  only the compiled kernel allocates ahead
    allocate: Callable[[int], memoryview],
    crc_from: int,
    finish: Callable[[memoryview], memoryview] | None,
) -> list[memoryview]:
    """Encode columns into complete uncompressed batches.

    The template holds the fields that all batches share, and the first one's base sequence. A batch
    ends before the record that would exceed `batch_bytes`; a larger record gets its own batch.
    Timestamps are 64-bit numbers, one per row. Memory comes from `allocate`; `expected_bytes` is a
    guess that may be wrong. The CRC field covers a batch from `crc_from` on.
    """
    times = memoryview(timestamps).cast("B")[: 8 * row_count].cast("q")
    if len(times) != row_count:
        raise CorruptBatch(_BAD_COLUMN)
    batches: list[memoryview] = []
    payload = bytearray()
    count = base = latest = 0

    def end_batch() -> None:
        nonlocal template
        template = template._replace(
            length=MIN_LENGTH + len(payload),
            last_offset_delta=count - 1,
            base_timestamp=base,
            max_timestamp=latest,
            record_count=count,
        )
        size = HEADER_BYTES + len(payload)
        batch = allocate(size)[:size]
        batch[:HEADER_BYTES] = HEADER.pack(*template)
        batch[HEADER_BYTES:] = payload
        if finish is None:
            write_crc(batch, 0, size, crc_from)
        batches.append(batch if finish is None else finish(batch))
        sequence = sequence_after(template.base_sequence, count)
        template = template._replace(base_sequence=sequence)

    for row in range(row_count):
        key, value = _cell(keys, row), _cell(values, row)
        tail = _varbytes(key) + _varbytes(value) + _headers_of(headers, row)
        if count == 0:
            base = latest = times[row]
        record = _framed(int64(times[row] - base), count, tail)
        if count and HEADER_BYTES + len(payload) + len(record) > batch_bytes:
            end_batch()
            payload = bytearray()
            count, base, latest = 0, times[row], times[row]
            record = _framed(0, 0, tail)
        payload += record
        count += 1
        latest = max(latest, times[row])
    if count:
        end_batch()
    return batches


def filter_records(
    payload: Buffer, record_count: int, keep: Buffer, base_timestamp_shift: int
) -> tuple[bytes, int, int | None]:
    """Return records whose byte in `keep` is not zero; their largest timestamp delta.

    Offset deltas stay. The timestamp deltas are shifted against the base timestamp, so that every
    record keeps its timestamp.
    """
    _check_mask(keep, record_count)
    view = memoryview(payload)
    kept = bytearray()
    kept_count = 0
    latest: int | None = None
    for index, record in enumerate(walk_records(view, record_count)):
        if not keep[index]:
            continue
        delta = int64(record.timestamp_delta - base_timestamp_shift)
        if base_timestamp_shift == 0:
            kept += view[record.start : record.end]
        else:
            stamped = write_varint(delta)
            rest = view[record.after_timestamp : record.end]
            kept += write_varint(1 + len(stamped) + len(rest))
            kept += view[record.body : record.body + 1]
            kept += stamped
            kept += rest
        kept_count += 1
        latest = delta if latest is None else max(latest, delta)
    return bytes(kept), kept_count, latest


def first_timestamp_delta(payload: Buffer, record_count: int, keep: Buffer) -> int | None:
    """Return the timestamp delta of the first kept record; None without one."""
    _check_mask(keep, record_count)
    first = None
    for index, record in enumerate(walk_records(memoryview(payload), record_count)):
        if first is None and keep[index]:
            first = record.timestamp_delta
    return first


def check_records(payload: Buffer, record_count: int) -> RecordsSummary:
    """Walk the records, raise if their structure is invalid, and summarise them."""
    is_dense = True
    has_null_key = False
    latest: int | None = None
    for index, record in enumerate(walk_records(memoryview(payload), record_count)):
        is_dense = is_dense and record.offset_delta == index
        has_null_key = has_null_key or record.key_length < 0
        delta = record.timestamp_delta
        latest = delta if latest is None else max(latest, delta)
    return RecordsSummary(is_dense, has_null_key, latest)


def validate_records(
    payload: Buffer,
    record_count: int,
    base_timestamp: int,
    oldest_ms: int,
    newest_ms: int,
    needs_keys: bool,
) -> ValidationResult:
    """Walk a client's records; raise if malformed, and check their content.

    With `needs_keys`, the timestamp of a record without a key is not checked: such a record is
    rejected for its key, and the batch gets the timestamp error only if another record is out of
    range.
    """
    is_dense = is_in_time = True
    has_null_key = False
    latest = NO_TIMESTAMP
    for index, record in enumerate(walk_records(memoryview(payload), record_count)):
        is_dense = is_dense and record.offset_delta == index
        has_null_key = has_null_key or record.key_length < 0
        timestamp = int64(base_timestamp + record.timestamp_delta)
        latest = max(latest, timestamp)
        if (
            not oldest_ms <= timestamp <= newest_ms
            and timestamp != NO_TIMESTAMP
            and not (needs_keys and record.key_length < 0)
        ):
            is_in_time = False
    return ValidationResult(is_dense, has_null_key, is_in_time, latest)


def renumber_records(payload: Buffer, record_count: int) -> bytes:
    """Return the records with offset deltas 0, 1, 2 and so on."""
    view = memoryview(payload)
    renumbered = bytearray()
    for index, record in enumerate(walk_records(view, record_count)):
        delta = write_varint(index)
        front = view[record.body : record.after_timestamp]
        rest = view[record.after_offset : record.end]
        renumbered += write_varint(len(front) + len(delta) + len(rest))
        renumbered += front
        renumbered += delta
        renumbered += rest
    return bytes(renumbered)


def murmur2(data: Buffer) -> int:
    """Return Kafka's murmur2 hash of a key, as a signed 32-bit number."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    value = 0x9747B28C ^ length
    whole = length - length % 4
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        mixed = word * multiplier & mask
        mixed = (mixed ^ mixed >> 24) * multiplier & mask
        value = value * multiplier & mask ^ mixed
    if whole < length:
        value ^= int.from_bytes(memoryview(data)[whole:], "little")
        value = value * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    value ^= value >> 15
    return value - 2**32 if value >= 2**31 else value


def murmur2_column(row_count: int, column: BinaryBuffers) -> bytearray:
    """Return the hash of every row as 32-bit numbers; 0 for null."""
    hashes = array("i")
    for row in range(row_count):
        cell = _cell(column, row)
        hashes.append(0 if cell is None else murmur2(cell))
    return bytearray(hashes)


def new_block(size_bytes: int) -> memoryview:
    """Return memory with undefined content; the compiled kernel reuses blocks."""
    return memoryview(bytearray(size_bytes))


def new_mapping(size_bytes: int) -> memoryview:
    """Return zeroed memory, which the compiled kernel maps."""
    if size_bytes <= 0:
        raise ValueError("a mapping must have at least one byte")
    return memoryview(bytearray(size_bytes))


def _varbytes(content: Buffer | None) -> bytes:
    return b"\x01" if content is None else write_varint(len(content)) + content


def _framed(timestamp_delta: int, offset_delta: int, tail: bytes) -> bytes:
    body = b"\x00" + write_varint(timestamp_delta) + write_varint(offset_delta) + tail
    if len(body) > INT32_MAX:
        raise BatchTooLarge(f"a record of {len(body)} bytes")
    return write_varint(len(body)) + body


def _headers_of(headers: HeaderBuffers | None, row: int) -> bytes:
    if headers is None or not _is_valid(headers.validity, headers.first + row):
        return b"\x00"
    start, end = _bounds(
        headers.offsets, headers.first + row, headers.is_wide, headers.header_count
    )
    encoded = bytearray(write_varint(end - start))
    for index in range(start, end):
        key = _cell(headers.keys, index)
        if key is None:
            raise CorruptBatch("a header without a key")
        encoded += _varbytes(key)
        encoded += _varbytes(_cell(headers.values, index))
    return bytes(encoded)


def _cell(column: BinaryBuffers | None, row: int) -> memoryview | None:
    if column is None:
        return None
    row += column.first
    if not _is_valid(column.validity, row):
        return None
    data = memoryview(column.data)
    start, end = _bounds(column.offsets, row, column.is_wide, len(data))
    return data[start:end]


def _content(column: BinaryBuffers | None, row: int) -> bytes | None:
    cell = _cell(column, row)
    return None if cell is None else bytes(cell)


def _is_valid(validity: Buffer | None, row: int) -> bool:
    if validity is None:
        return True
    if row >> 3 >= len(validity):
        raise CorruptBatch(_BAD_COLUMN)
    return bool(validity[row >> 3] >> (row & 7) & 1)


def _bounds(offsets: Buffer, row: int, is_wide: bool, limit: int) -> tuple[int, int]:
    """Return start and end of a row, in bytes or in headers."""
    format_, width = ("=qq", 8) if is_wide else ("=ii", 4)
    if (row + 2) * width > len(offsets):
        raise CorruptBatch(_BAD_COLUMN)
    start, end = struct.unpack_from(format_, offsets, row * width)
    if not 0 <= start <= end <= limit:
        raise CorruptBatch(_BAD_COLUMN)
    return start, end


def _check_mask(keep: Buffer, record_count: int) -> None:
    assert len(keep) == record_count, "a mask has one byte for every record"
