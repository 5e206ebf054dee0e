"""Arbitrary bytes: a batch is read, or rejected with a batch error."""

from contextlib import suppress

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import BatchError
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.arrow_columns import decode_batches, encode_columns
from headwater.records.batch_building import build_batch
from headwater.records.batch_filter import filter_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.batch_validator import check_client_batch, recompress
from headwater.records.checksum import write_crc
from headwater.records.compression import compress, decompress
from headwater.records.record import Record
from headwater.records.record_reader import read_records

LIMIT_BYTES = 2**20
NOW_MS = 1_700_000_000_000
CODECS = st.sampled_from(list(Codec))
CONTENT = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Record,
        key=CONTENT,
        value=CONTENT,
        timestamp=st.integers(-1, 2**45),
        headers=st.lists(st.tuples(st.text(max_size=6), CONTENT), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, CODECS, st.integers(0, 2**50))
def test_built_batches_survive_a_round_trip(
    records: list[Record], codec: Codec, base_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    header = read_header(batch)
    found = list(read_records(batch, header))
    assert [record.offset for record in found] == list(range(base_offset, header.next_offset))
    assert [(r.key, r.value, r.timestamp, r.headers) for r in found] == [
        (r.key, r.value, r.timestamp, r.headers) for r in records
    ]


@given(RECORDS, CODECS, st.integers(62, 600))
def test_columns_survive_a_round_trip(
    records: list[Record], codec: Codec, batch_bytes: int
) -> None:
    decoded = decode_batches(build_batch(records))
    decoded.validate(full=True)
    log = bytearray()
    for batch in encode_columns(decoded, codec=codec, batch_bytes=batch_bytes):
        log += batch
    again = decode_batches(log)
    names = ["timestamp", "key", "value", "headers"]
    assert again.select(names).equals(decoded.select(names))


@given(RECORDS, st.integers(0, 30), st.integers(0, 30), st.integers(62, 400))
def test_slice_is_encoded_like_its_rows(
    records: list[Record], start: int, length: int, batch_bytes: int
) -> None:
    sliced = decode_batches(build_batch(records)).slice(start, length)
    copied = pa.RecordBatch.from_pylist(sliced.to_pylist(), schema=sliced.schema)
    encoded = encode_columns(sliced, batch_bytes=batch_bytes)
    assert encoded == encode_columns(copied, batch_bytes=batch_bytes)


@given(RECORDS, CODECS, st.none() | st.integers(0, 2**45), st.data())
def test_filtering_keeps_exactly_the_chosen_records(
    records: list[Record], codec: Codec, horizon_ms: int | None, data: st.DataObject
) -> None:
    """CP-3, CP-4."""
    batch = build_batch(records, codec=codec, base_offset=5)
    header = read_header(batch)
    keep = data.draw(st.binary(min_size=len(records), max_size=len(records)))
    filtered = filter_batch(batch, header, 0, keep, delete_horizon_ms=horizon_ms)
    after = read_header(filtered)
    wanted = [
        record for record, keeps in zip(read_records(batch, header), keep, strict=True) if keeps
    ]
    assert list(read_records(filtered, after)) == wanted
    assert (after.base_offset, after.last_offset) == (header.base_offset, header.last_offset)
    assert after.delete_horizon_ms == (horizon_ms if wanted else None)
    if wanted:
        assert after.max_timestamp == max(record.timestamp for record in wanted)


@given(RECORDS, CODECS, CODECS)
def test_recompressed_records_stay_the_same(
    records: list[Record], source: Codec, target: Codec
) -> None:
    """PV-5."""
    before = build_batch(records, codec=source)
    after = recompress(before, target)
    assert list(read_records(after, read_header(after))) == list(
        read_records(before, read_header(before))
    )


@settings(max_examples=300)
@given(RECORDS, CODECS, st.data())
def test_corrupt_batch_is_read_or_rejected(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    """With a valid CRC, so that the corruption reaches codecs and kernel."""
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del batch[data.draw(st.integers(0, len(batch))) :]
    if len(batch) > 61:
        write_crc(batch, 0, len(batch))
    with suppress(BatchError):
        header = read_header(batch)
        check_client_batch(
            batch,
            header,
            settings=TopicSettings(cleanup_policy=("compact",)),
            now_ms=NOW_MS,
            limit_bytes=LIMIT_BYTES,
        )
    with suppress(BatchError):
        header = read_header(batch)
        list(read_records(batch, header, 0, LIMIT_BYTES))
    with suppress(BatchError):
        decode_batches(batch, limit_bytes=LIMIT_BYTES).validate(full=True)


@settings(max_examples=300)
@given(CODECS, st.binary(max_size=300), st.integers(0, 300))
def test_random_bytes_decompress_within_the_limit_or_are_rejected(
    codec: Codec, noise: bytes, limit_bytes: int
) -> None:
    with suppress(BatchError):
        assert len(decompress(codec, noise, limit_bytes)) <= limit_bytes


@settings(max_examples=300)
@given(CODECS, st.binary(max_size=2000), st.data())
def test_corrupt_streams_decompress_within_the_limit_or_are_rejected(
    codec: Codec, plain: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, plain))
    if packed:
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    limit_bytes = data.draw(st.integers(0, 4000))
    with suppress(BatchError):
        assert len(decompress(codec, packed, limit_bytes)) <= limit_bytes
