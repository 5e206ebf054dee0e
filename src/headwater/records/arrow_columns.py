"""Convert record batches to Arrow columns and back.

The only module of this package that imports pyarrow; a broker never loads it. Decoding adopts the
kernel's buffers without a copy, encoding reads Arrow's buffers in place.

Note: Arrow arrays may be slices of larger ones. Every buffer of an array is the whole one, and the
array's `offset` says where its rows start.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.common.exceptions import CorruptBatch, InvalidRecord
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE, NO_TIMESTAMP
from headwater.records.arrow_values import binaries, integer, null
from headwater.records.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_END,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    Codec,
    read_header,
    sequence_after,
)
from headwater.records.batch_sealing import seal_batch
from headwater.records.checksum import check_crc as check_batch_crc
from headwater.records.compression import compress
from headwater.records.kernel import decode_sections, encode_batches, new_block, scan
from headwater.records.kernel import murmur2_column as hash_column
from headwater.records.kernel.buffers import (
    BinaryBuffers,
    DecodedColumns,
    HeaderBuffers,
    RecordSection,
    ViewBuffers,
)
from headwater.records.payload import DEFAULT_LIMIT_BYTES, record_section

if TYPE_CHECKING:
    AnyArray = pa.Array[Any]
    AnyChunkedArray = pa.ChunkedArray[Any]
else:  # The stubs are generic over the array's type, the classes are not.
    AnyArray = pa.Array
    AnyChunkedArray = pa.ChunkedArray

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMN_TYPES: dict[str, pa.DataType] = {
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(HEADER_TYPE),
    "attributes": pa.int16(),
}
SCHEMA = pa.schema(_COLUMN_TYPES)
VIEWS_SCHEMA = pa.schema({**_COLUMN_TYPES, "value": pa.binary_view()})
DEFAULT_BATCH_BYTES = 16_384
_RECORD_OVERHEAD_BYTES = 12


def decode_batches(
    buffer: Buffer,
    batches: Iterable[tuple[int, BatchHeader]] | None = None,
    *,
    first_offset: int = 0,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    check_crc: bool = True,
    include_control: bool = False,
) -> pa.RecordBatch:
    """Decode batches into one Arrow batch of `SCHEMA`.

    Without a list of positions and headers, all whole batches of the buffer are read. Records
    before `first_offset` are left out: a fetch starts with the batch that holds its offset. No
    single batch may decompress to more than the limit.
    """
    chosen = _all_batches(buffer) if batches is None else batches
    return adopt_columns(
        decode_sections(
            _sections(buffer, chosen, limit_bytes, check_crc, include_control),
            first_offset=first_offset,
            expected_bytes=len(buffer),
            checks_crc=check_crc,
        )
    )


def encode_columns(
    data: pa.Table | pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    default_timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    crc_from: int = CRC_END,
) -> list[memoryview]:
    """Encode rows as record batches of about `batch_bytes` before compression.

    Columns are found by name: `key` and `value` of binary or string type, `timestamp` in
    milliseconds or of timestamp type, `headers` as a list of key and value. A missing column or a
    null is a null key or value, no headers, or the default timestamp. Batches share memory blocks
    of some megabytes, which live as long as any of their batches. A caller that will change headers
    passes `crc_from` as `HEADER_BYTES` and later calls `batch_sealing.renew_crc`; a compressed
    batch always has the complete CRC.
    """
    template = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_FLAG if is_transactional else 0),
        last_offset_delta=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=0,
    )
    finish = None if codec is Codec.NONE else partial(_packed, codec=codec, level=level)
    batches: list[memoryview] = []
    for rows in _whole_batches(data):
        batches += _encode(rows, template, batch_bytes, default_timestamp, crc_from, finish)
        count = rows.num_rows
        template = template._replace(base_sequence=sequence_after(template.base_sequence, count))
    return batches


def murmur2_column(keys: AnyArray | AnyChunkedArray) -> AnyArray:
    """Return Kafka's murmur2 hash of every key; null stays null."""
    array = _one_array(keys)
    column = _binary_buffers(array)
    if column is None:
        return pa.nulls(len(array), pa.int32())
    hashes = pa.py_buffer(hash_column(len(array), column))
    plain = pa.Array.from_buffers(pa.int32(), len(array), [None, hashes])
    return plain if array.null_count == 0 else pc.if_else(array.is_null(), null(pa.int32()), plain)


def partition_column(keys: AnyArray | AnyChunkedArray, partitions: int) -> AnyArray:
    """Return each key's partition as Kafka's producer chooses it; null stays null."""
    positive = pc.bit_wise_and(murmur2_column(keys), integer(0x7FFFFFFF, pa.int32()))
    count = integer(partitions, pa.int32())
    found: AnyArray = pc.subtract(positive, pc.multiply(pc.divide(positive, count), count))
    return found


def _all_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    headers, _ = scan(buffer, 0, len(buffer))
    position = 0
    for header in headers:
        yield position, header
        position += LENGTH_END + header.length


def _sections(
    buffer: Buffer,
    batches: Iterable[tuple[int, BatchHeader]],
    limit_bytes: int,
    check_crc: bool,
    include_control: bool,
) -> Iterator[RecordSection]:
    for position, header in batches:
        attributes = header.attributes
        if attributes & CONTROL_FLAG and not include_control:
            continue
        if attributes & CODEC_MASK:
            if check_crc:
                check_batch_crc(buffer, header, position)
            unpacked = record_section(buffer, header, position, limit_bytes)
            yield unpacked, 0, len(unpacked), header
        else:
            stop = position + LENGTH_END + header.length
            yield buffer, position + HEADER_BYTES, stop, header


def adopt_columns(columns: DecodedColumns) -> pa.RecordBatch:
    """Wrap the kernel's buffers in Arrow arrays of `SCHEMA` or `VIEWS_SCHEMA`."""
    rows = columns.row_count
    headers = columns.headers
    assert headers.values is not None, "decoding returns every column"
    header_structs = pa.Array.from_buffers(
        HEADER_TYPE,
        headers.header_count,
        [None],
        children=[
            _header_keys(headers),
            _binary_array(headers.values, headers.header_count),
        ],
    )
    header_lists = pa.Array.from_buffers(
        SCHEMA.field("headers").type,
        rows,
        [None, pa.py_buffer(headers.offsets)],
        children=[header_structs],
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)]),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.timestamps)]),
            _binary_array(columns.keys, rows),
            _values_array(columns.values, rows),
            header_lists,
            pa.Array.from_buffers(pa.int16(), rows, [None, pa.py_buffer(columns.attributes)]),
        ],
        schema=VIEWS_SCHEMA if isinstance(columns.values, ViewBuffers) else SCHEMA,
    )


def _values_array(column: BinaryBuffers | ViewBuffers, rows: int) -> AnyArray:
    if isinstance(column, BinaryBuffers):
        return _binary_array(column, rows)
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.views), *map(pa.py_buffer, column.data)]
    return pa.Array.from_buffers(pa.binary_view(), rows, buffers)


def _binary_array(column: BinaryBuffers, rows: int) -> AnyArray:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _header_keys(headers: HeaderBuffers) -> AnyArray:
    """Return header keys as text; like Kafka, show invalid UTF-8 as U+FFFD."""
    if not headers.header_count:
        return pa.nulls(0, pa.string())
    keys = _binary_array(headers.keys, headers.header_count)
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [str(key.as_py(), "utf-8", "replace").encode() for key in keys]
        found: AnyArray = binaries(texts).cast(pa.string())
        return found


def _whole_batches(data: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return Arrow batches that ignore a table's chunks."""
    return [data] if isinstance(data, pa.RecordBatch) else data.combine_chunks().to_batches()


def _encode(
    rows: pa.RecordBatch,
    template: BatchHeader,
    batch_bytes: int,
    default_timestamp: int,
    crc_from: int,
    finish: Callable[[memoryview], memoryview] | None,
) -> list[memoryview]:
    columns = {name: rows.column(name) for name in rows.schema.names}
    keys, values = columns.get("key"), columns.get("value")
    return encode_batches(
        rows.num_rows,
        _timestamps(columns.get("timestamp"), rows.num_rows, default_timestamp),
        None if keys is None else _binary_buffers(keys),
        None if values is None else _binary_buffers(values),
        _header_buffers(columns.get("headers")),
        template=template,
        batch_bytes=batch_bytes,
        expected_bytes=rows.nbytes + rows.num_rows * _RECORD_OVERHEAD_BYTES,
        allocate=new_block,
        crc_from=crc_from,
        finish=finish,
    )


def _packed(batch: memoryview, codec: Codec, level: int | None) -> memoryview:
    packed = compress(codec, batch[HEADER_BYTES:], level)
    return memoryview(bytearray(seal_batch(read_header(batch), packed)))


def _timestamps(column: AnyArray | None, rows: int, default_timestamp: int) -> Buffer:
    """Return one 64-bit number of milliseconds for every row."""
    if column is None or pa.types.is_null(column.type):
        return struct.pack("=q", default_timestamp) * rows
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise InvalidRecord(f"timestamps cannot be of type {column.type}")
    numbers: AnyArray = column.cast(pa.int64())
    if numbers.null_count:
        numbers = numbers.fill_null(default_timestamp)
    content = _buffer(numbers.buffers()[1])
    return memoryview(content)[8 * numbers.offset : 8 * (numbers.offset + rows)]


def _binary_buffers(array: AnyArray) -> BinaryBuffers | None:
    """Return the buffers of a column of bytes or text; None for a null-typed column."""
    kind = array.type
    if pa.types.is_null(kind):
        return None
    is_wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (is_wide or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        return _binary_buffers(_as_large_binary(array))
    validity, offsets, data = array.buffers()
    return BinaryBuffers(
        None if validity is None else _buffer(validity),
        _buffer(offsets),
        _buffer(data),
        array.offset,
        is_wide,
    )


def _as_large_binary(array: AnyArray) -> AnyArray:
    """Convert views, dictionaries and fixed sizes to the kernel's layout."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if (
        pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_string_view(kind)
        or (kind != array.type and _is_binary_like(kind))
    ):
        return array.cast(kind).cast(pa.large_binary())
    raise InvalidRecord(f"keys, values and header parts cannot be of type {array.type}")


def _is_binary_like(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
    )


def _header_buffers(column: AnyArray | None) -> HeaderBuffers | None:
    if column is None or pa.types.is_null(column.type):
        return None
    if not isinstance(column, pa.ListArray | pa.LargeListArray):
        raise InvalidRecord(f"headers cannot be of type {column.type}")
    entries = column.values
    if not isinstance(entries, pa.StructArray):
        raise InvalidRecord(f"headers cannot be of type {column.type}")
    # Flattening propagates an entry's null to its fields; a null key is then rejected.
    names = [field.name for field in entries.type]
    parts = dict(zip(names, entries.flatten(), strict=True))
    if set(parts) != {"key", "value"}:
        raise InvalidRecord(f"a header has a key and a value, not {names}")
    keys = _binary_buffers(parts["key"])
    values = _binary_buffers(parts["value"])
    if keys is None:
        raise CorruptBatch("a header without a key")
    validity, offsets = column.buffers()[:2]
    return HeaderBuffers(
        validity=None if validity is None else _buffer(validity),
        offsets=_buffer(offsets),
        keys=keys,
        values=values,
        header_count=len(entries),
        first=column.offset,
        is_wide=isinstance(column, pa.LargeListArray),
    )


def _one_array(keys: AnyArray | AnyChunkedArray) -> AnyArray:
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys


def _buffer(buffer: pa.Buffer | None) -> Buffer:
    """Return a buffer as unsigned bytes; Arrow omits the buffers of an empty array."""
    return b"" if buffer is None else memoryview(buffer).cast("B")
