"""Records as Arrow columns and back."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from headwater.common.exceptions import BatchError, CorruptBatch, DecompressionBomb, InvalidRecord
from headwater.records.arrow_columns import (
    SCHEMA,
    decode_batches,
    encode_columns,
    murmur2_column,
    partition_column,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    HEADER_BYTES,
    Codec,
    TimestampType,
    read_header,
)
from headwater.records.batch_sealing import renew_crc
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.kernel import murmur2, scan
from headwater.records.record import Record
from headwater.records.record_reader import read_records

RECORDS = [
    Record(key=b"a", value=b"1", timestamp=1000, headers=(("trace", b"x"), ("none", None))),
    Record(key=None, value=b"2", timestamp=990),
    Record(key=b"b", value=None, timestamp=1010, headers=(("ключ", b""),)),
    Record(key=b"", value=b"", timestamp=1005),
]
ROWS = [
    {
        "key": record.key,
        "value": record.value,
        "timestamp": record.timestamp,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
    }
    for record in RECORDS
]
MARKER = build_marker(
    ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
)


def rows_of(table: pa.RecordBatch) -> list[dict[str, object]]:
    table.validate(full=True)
    return table.to_pylist()


def records_of(batches: list[memoryview]) -> list[Record]:
    """All records, with offsets as if the batches were appended one after the other."""
    found: list[Record] = []
    for batch in batches:
        header = read_header(batch)
        assert header.size_bytes == len(batch)
        found += [
            Record(key=r.key, value=r.value, timestamp=r.timestamp, headers=r.headers)
            for r in read_records(batch, header)
        ]
    return found


@pytest.mark.parametrize("codec", Codec)
def test_batches_become_columns(codec: Codec) -> None:
    log = build_batch(RECORDS[:3], base_offset=7, codec=codec) + build_batch(
        RECORDS[3:], base_offset=20, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    decoded = decode_batches(log)
    assert decoded.schema == SCHEMA
    expected = [
        {"offset": offset, **row, "attributes": attributes}
        for offset, row, attributes in zip(
            [7, 8, 9, 20], ROWS, [codec] * 3 + [APPEND_TIME_FLAG], strict=True
        )
    ]
    assert rows_of(decoded) == expected


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert decode_batches(batch).column("timestamp").to_pylist() == [1010] * 4


def test_delete_horizon_does_not_change_timestamps() -> None:
    """CP-4."""
    batch = build_batch(RECORDS, delete_horizon_ms=10**12)
    assert decode_batches(batch).column("timestamp").to_pylist() == [1000, 990, 1010, 1005]


def test_a_fetch_may_start_within_a_batch() -> None:
    log = build_batch(RECORDS, base_offset=10)
    assert decode_batches(log, first_offset=12).column("offset").to_pylist() == [12, 13]
    assert decode_batches(log, first_offset=14).num_rows == 0


def test_empty_input_decodes_to_no_rows() -> None:
    empty = decode_batches(b"")
    assert empty.schema == SCHEMA
    assert rows_of(empty) == []


def test_control_batches_are_left_out_unless_requested() -> None:
    log = build_batch(RECORDS[:1]) + MARKER
    assert decode_batches(log).num_rows == 1
    assert decode_batches(log, include_control=True).num_rows == 2


def test_the_caller_may_choose_the_batches() -> None:
    """Like a consumer that leaves out aborted transactions."""
    log = build_batch(RECORDS[:2]) + build_batch(RECORDS[2:], base_offset=2)
    (first, second), _ = scan(log, 0, len(log))
    chosen = decode_batches(log, [(first.size_bytes, second)])
    assert chosen.column("offset").to_pylist() == [2, 3]


def test_incomplete_last_batch_is_left_for_the_next_fetch() -> None:
    log = build_batch(RECORDS[:2]) + build_batch(RECORDS[2:], base_offset=2)
    assert decode_batches(log[:-1]).num_rows == 2


def test_wrong_crc_is_rejected_unless_disabled() -> None:
    damaged = bytearray(build_batch(RECORDS[:1]))
    damaged[17] ^= 1
    with pytest.raises(CorruptBatch):
        decode_batches(damaged)
    assert decode_batches(damaged, check_crc=False).num_rows == 1


def test_decompression_bomb_is_rejected() -> None:
    bomb = build_batch([Record(value=bytes(10**6))], codec=Codec.ZSTD)
    with pytest.raises(DecompressionBomb):
        decode_batches(bomb, limit_bytes=10**5)


def test_header_keys_with_invalid_utf8_are_shown_as_in_kafka() -> None:
    name = b"\xffa\xc3".decode("utf-8", "surrogateescape")
    batch = build_batch([Record(headers=((name, b"v"), ("ok", None)))])
    (row,) = decode_batches(batch).column("headers").to_pylist()
    assert row == [{"key": "\ufffda\ufffd", "value": b"v"}, {"key": "ok", "value": None}]


@pytest.mark.parametrize("codec", Codec)
def test_columns_become_batches(codec: Codec) -> None:
    table = pa.Table.from_pylist(ROWS)
    batches = encode_columns(table, codec=codec)
    assert records_of(batches) == RECORDS
    assert decode_batches(batches[0]).select(table.schema.names).to_pylist() == ROWS


def test_encoding_equals_building_record_by_record() -> None:
    batches = encode_columns(pa.Table.from_pylist(ROWS))
    assert batches == [build_batch(RECORDS)]


def test_batches_are_split_before_they_grow_too_large() -> None:
    rows = [{"value": b"v" * 100, "timestamp": number} for number in range(100)]
    batches = encode_columns(pa.Table.from_pylist(rows), batch_bytes=1000)
    assert max(len(batch) for batch in batches) <= 1000
    assert min(len(batch) for batch in batches[:-1]) > 1000 - 120
    assert [record.timestamp for record in records_of(batches)] == list(range(100))


def test_record_larger_than_a_batch_gets_its_own_batch() -> None:
    rows = [{"value": b"s"}, {"value": b"L" * 10**6}, {"value": b"s"}]
    batches = encode_columns(pa.Table.from_pylist(rows), batch_bytes=1000)
    assert [read_header(batch).record_count for batch in batches] == [1, 1, 1]


def test_sequences_follow_the_records_across_batches() -> None:
    """IDP-7."""
    rows = [{"value": b"v" * 100}] * 10
    batches = encode_columns(
        pa.Table.from_pylist(rows),
        batch_bytes=500,
        producer_id=9,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    headers = [read_header(batch) for batch in batches]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(9, 3)}
    assert all(header.is_transactional for header in headers)
    for before, after in pairwise(headers):
        assert after.base_sequence == (before.base_sequence + before.record_count) % 2**31


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_binary()),
    ],
    ids=str,
)
def test_any_string_or_binary_type_may_hold_keys_and_values(kind: pa.DataType) -> None:
    texts = ["zero", None, "two", "", "four"]
    plain = pa.array(texts, pa.string())
    column: pa.Array[Any] = plain.cast(getattr(kind, "value_type", kind))
    if pa.types.is_dictionary(kind):
        column = column.dictionary_encode()
    for start in range(5):
        batch = pa.RecordBatch.from_arrays([column, column], ["key", "value"]).slice(start)
        expected = [None if text is None else text.encode() for text in texts[start:]]
        records = records_of(encode_columns(batch))
        assert [record.key for record in records] == expected
        assert [record.value for record in records] == expected


def test_fixed_size_values_are_accepted() -> None:
    column = pa.array([b"four", b"more"], pa.binary(4))
    records = records_of(encode_columns(pa.RecordBatch.from_arrays([column], ["value"])))
    assert [record.value for record in records] == [b"four", b"more"]


def test_slices_and_chunks_do_not_change_the_result() -> None:
    whole = pa.Table.from_pylist(ROWS * 5)
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 1), whole.slice(8)])
    assert encode_columns(chunked) == encode_columns(whole)
    assert records_of(encode_columns(whole.slice(6, 9))) == (RECORDS * 5)[6:15]
    batch = whole.combine_chunks().to_batches()[0].slice(6, 9)
    assert records_of(encode_columns(batch)) == (RECORDS * 5)[6:15]


def test_large_lists_of_headers_are_accepted() -> None:
    table = pa.Table.from_pylist(ROWS)
    entry = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    wide = table.set_column(
        table.schema.get_field_index("headers"),
        "headers",
        table.column("headers").cast(pa.large_list(entry)),
    )
    assert encode_columns(wide) == encode_columns(table)


def test_null_headers_are_no_headers() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([None, [{"key": "k", "value": None}]], kind)
    records = records_of(encode_columns(pa.RecordBatch.from_arrays([column], ["headers"])))
    assert [record.headers for record in records] == [(), (("k", None),)]


@pytest.mark.parametrize("entry", [None, {"key": None, "value": b"v"}])
def test_header_without_key_is_rejected(entry: object) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([[entry]], kind)
    with pytest.raises(CorruptBatch):
        encode_columns(pa.RecordBatch.from_arrays([column], ["headers"]))


def test_missing_columns_and_nulls_have_defaults() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"a"], "key": pa.nulls(1)})
    assert records_of(encode_columns(batch)) == [Record(value=b"a", timestamp=-1)]
    times = pa.RecordBatch.from_pydict({"timestamp": [5, None]})
    records = records_of(encode_columns(times, default_timestamp=77))
    assert [record.timestamp for record in records] == [5, 77]
    other = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    assert {r.timestamp for r in records_of(encode_columns(other, default_timestamp=3))} == {3}


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (pa.timestamp("s"), 1),
        (pa.timestamp("ms", "UTC"), 1000),
        (pa.timestamp("us", "Europe/Berlin"), 10**6),
        (pa.timestamp("ns"), 10**9),
    ],
    ids=str,
)
def test_timestamps_of_any_unit_become_milliseconds(kind: pa.DataType, factor: int) -> None:
    column = pa.array([None, 1 * factor, 2 * factor], pa.int64()).cast(kind).slice(1)
    records = records_of(encode_columns(pa.RecordBatch.from_arrays([column], ["timestamp"])))
    assert [record.timestamp for record in records] == [1000, 2000]


def test_no_rows_give_no_batches() -> None:
    assert encode_columns(pa.Table.from_pylist(ROWS).slice(0, 0)) == []
    assert encode_columns(pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})) == []


@pytest.mark.parametrize("name", ["key", "value", "timestamp", "headers"])
def test_column_of_an_unsupported_type_is_rejected(name: str) -> None:
    strange = pa.RecordBatch.from_arrays([pa.array([1.5])], [name])
    with pytest.raises(InvalidRecord):
        encode_columns(strange)


def test_keys_map_to_the_same_partitions_as_in_kafka() -> None:
    keys = [b"21", None, b"foobar", b"", b"abc"]
    expected = [None if key is None else murmur2(key) for key in keys]
    for column in (pa.array(keys), pa.chunked_array([keys[:2], keys[2:]]), pa.array(keys, "str")):
        assert murmur2_column(column).to_pylist() == expected
        assert partition_column(column, 7).to_pylist() == [
            None if number is None else (number & 0x7FFFFFFF) % 7 for number in expected
        ]
    assert murmur2_column(pa.array(keys).slice(2)).to_pylist() == expected[2:]
    assert murmur2_column(pa.nulls(2)).to_pylist() == [None, None]


def test_corruption_is_always_detected() -> None:
    batch = build_batch(RECORDS)
    for position in range(8, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        try:
            decoded = decode_batches(damaged)
        except BatchError:
            continue
        # The CRC does not cover length and leader epoch; a longer length is an incomplete batch.
        assert decoded.num_rows == 0 or 12 <= position < 16


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_crc_that_is_completed_later_gives_the_same_batch(codec: Codec) -> None:
    table = pa.Table.from_pylist(ROWS)
    whole = encode_columns(table, codec=codec)
    later = encode_columns(table, codec=codec, crc_from=HEADER_BYTES)
    if codec is Codec.NONE:
        assert later != whole
        for batch in later:
            renew_crc(batch, read_header(batch).crc)
    assert later == whole
