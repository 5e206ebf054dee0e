"""The compiled kernel and its pure implementation give the same results and errors."""

import random
import struct
from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import BatchError
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    CRC_END,
    HEADER_BYTES,
    Codec,
    read_header,
)
from headwater.records.batch_validator import check_client_batch, corrected
from headwater.records.checksum import write_crc
from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel import _kernel, pure_kernel
from headwater.records.kernel.batch_runs import IndexProgress
from headwater.records.kernel.buffers import BinaryBuffers, HeaderBuffers, ValidationResult
from headwater.records.record import Record
from headwater.records.record_reader import read_records

SEED = bytes(range(16))
TEMPLATE = read_header(build_batch([Record(timestamp=77)], producer_id=5, producer_epoch=1))
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.binary(max_size=12) | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | SMALL), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(
        Record,
        key=st.none() | st.sampled_from([b"a", b"b", b"c"]) | SMALL,
        value=st.none() | SMALL,
        timestamp=st.integers(-1, 2**40),
        headers=HEADERS,
    ),
    min_size=1,
    max_size=12,
)


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return a record section and its count: valid, nearly valid, or random."""
    records = draw(RECORDS)
    payload = bytearray(build_batch(records)[HEADER_BYTES:])
    count = len(records)
    for _ in range(draw(st.sampled_from([1, 0, 2]))):
        position = draw(st.integers(0, len(payload) - 1))
        match draw(st.sampled_from(["flip", "set", "cut", "grow", "tail", "count", "noise"])):
            case "flip":
                payload[position] ^= 1 << draw(st.integers(0, 7))
            case "set":
                payload[position] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "cut":
                del payload[max(position, 1) :]
            case "grow":
                payload[position:position] = draw(SMALL)
            case "tail":
                payload += draw(st.binary(min_size=1, max_size=8))
            case "count":
                count = draw(st.integers(count - 1, count + 1) | st.sampled_from([-1, 2**31 - 1]))
            case "noise":
                payload[:] = draw(st.binary(min_size=1, max_size=60))
    return bytes(payload), count


def outcome(call: Callable[[], object]) -> object:
    """Return a call's result or batch error; any other exception is a bug."""
    try:
        return call()
    except BatchError as error:
        return type(error)


def agree(work: Callable[[ModuleType], object]) -> object:
    compiled = outcome(lambda: work(_kernel))
    pure = outcome(lambda: work(pure_kernel))
    assert compiled == pure
    return pure


@given(sections(), INT64)
def test_walks_and_filters_agree(section: tuple[bytes, int], shift: int) -> None:
    payload, count = section
    keep = bytes(index % 3 != 0 for index in range(max(count, 0) if count < 100 else 0))
    agree(lambda kernel: kernel.check_records(payload, count))
    if len(keep) == count:
        agree(lambda kernel: kernel.first_timestamp_delta(payload, count, keep))
        agree(lambda kernel: kernel.filter_records(payload, count, keep, 0))
        agree(lambda kernel: kernel.filter_records(payload, count, keep, shift))


@given(sections(), INT64, INT64, INT64, st.booleans())
def test_validations_agree(
    section: tuple[bytes, int], base_timestamp: int, oldest_ms: int, newest_ms: int, keys: bool
) -> None:
    payload, count = section
    window = sorted((oldest_ms, newest_ms))
    result = agree(
        lambda kernel: kernel.validate_records(payload, count, base_timestamp, *window, keys)
    )
    again = agree(lambda kernel: kernel.renumber_records(payload, count))
    if isinstance(again, bytes) and count:
        dense = agree(
            lambda kernel: kernel.validate_records(again, count, base_timestamp, *window, keys)
        )
        assert isinstance(result, ValidationResult)
        assert dense == result._replace(is_dense=True)
        assert not result.is_dense or again == payload or len(again) < len(payload)


@pytest.mark.parametrize("seed", range(4))
def test_validations_of_long_sections_agree(seed: int) -> None:
    """With numbers of one to four bytes, valid or with one byte changed."""
    rng = random.Random(seed)
    lengths = (0, 1, 5, 62, 63, 64, 70, 8191, 8192)
    records = [
        Record(
            key=rng.choice((None, bytes(rng.choice(lengths[:7])))),
            value=rng.choice((None, bytes(rng.choice(lengths)))),
            timestamp=rng.choice((0, 63, 64, 8191, 8192, 2**21, -1)),
            headers=(("h", b"v"),) if rng.random() < 0.1 else (),
        )
        for _ in range(300)
    ]
    long = build_batch([Record(value=b"v", timestamp=5)] * 20_000)[HEADER_BYTES:]
    agree(lambda kernel: kernel.validate_records(long, 20_000, 5, 0, 10, False))
    whole = build_batch(records)[HEADER_BYTES:]
    for _ in range(60):
        payload = bytearray(whole)
        agree(lambda kernel: kernel.validate_records(payload, 300, 0, 0, 2**22, True))  # noqa: B023
        position = rng.randrange(len(payload))
        payload[position] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, payload[position] ^ 1))
        cut = payload[: rng.choice((len(payload), position + 1))]
        agree(lambda kernel: kernel.validate_records(cut, 300, 0, 0, 2**22, False))  # noqa: B023


@given(
    st.lists(sections(), min_size=1, max_size=3),
    INT64,
    INT64,
    st.booleans(),
    st.integers(-10, 10),
    st.integers(0, 3000),
    st.booleans(),
)
def test_decoded_columns_agree(
    parts: list[tuple[bytes, int]],
    base_offset: int,
    base_timestamp: int,
    has_append_time: bool,
    skipped: int,
    expected_bytes: int,
    views: bool,
) -> None:
    first_offset = max(-(2**63), min(base_offset + skipped, 2**63 - 1))
    run = [
        (
            b"before" + payload + b"after",
            6,
            6 + len(payload),
            TEMPLATE._replace(
                base_offset=base_offset,
                base_timestamp=base_timestamp,
                attributes=APPEND_TIME_FLAG if has_append_time else -0x7FF9,
                record_count=count,
            ),
        )
        for payload, count in parts
    ]
    agree(
        lambda kernel: kernel.decode_sections(
            iter(run), first_offset=first_offset, expected_bytes=expected_bytes, views=views
        )
    )


@given(sections(), sections(), st.integers(0, 400), st.integers(0, 2**40), st.booleans())
def test_offset_maps_agree(
    first: tuple[bytes, int],
    second: tuple[bytes, int],
    memory_bytes: int,
    base_offset: int,
    keep_tombstones: bool,
) -> None:
    def compact(kernel: ModuleType) -> object:
        offsets = kernel.OffsetMap(memory_bytes, 0.75, SEED)
        taken = kernel.map_records(offsets, *first, base_offset)
        masks = [
            outcome(partial(kernel.keep_mask, offsets, *part, base_offset, keep_tombstones))
            for part in (first, second)
        ]
        return taken, masks, len(offsets), offsets.latest_offset, offsets.capacity

    agree(compact)


@st.composite
def binary_columns(draw: st.DrawFn, rows: int) -> BinaryBuffers:
    """Return a column of a few rows, sometimes with wrong offsets."""
    first = draw(st.integers(0, 3))
    is_wide = draw(st.booleans())
    data = draw(st.binary(max_size=200))
    places = sorted(
        draw(
            st.lists(
                st.integers(0, len(data)), min_size=first + rows + 1, max_size=first + rows + 1
            )
        )
    )
    if draw(st.integers(0, 9)) == 0:
        places[draw(st.integers(0, len(places) - 1))] = draw(st.integers(-5, 300))
    width = 8 if is_wide else 4
    offsets = b"".join(place.to_bytes(width, "little", signed=True) for place in places)
    validity = draw(st.none() | st.binary(min_size=4, max_size=4))
    return BinaryBuffers(validity, offsets, data, first, is_wide)


def reversed_copy(batch: memoryview) -> memoryview:
    """Any change shows that every batch is finished."""
    return batch[::-1]


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, bytes, object, object, object]:
    rows = draw(st.integers(0, 8))
    times = b"".join(
        draw(INT64 | st.integers(0, 1000)).to_bytes(8, "little", signed=True) for _ in range(rows)
    )
    headers = None
    if draw(st.booleans()):
        count = draw(st.integers(0, 6))
        lists = draw(binary_columns(rows))
        keys = draw(binary_columns(count))._replace(validity=draw(st.sampled_from([None, b"\xff"])))
        headers = HeaderBuffers(
            validity=lists.validity,
            offsets=lists.offsets,
            keys=keys,
            values=draw(binary_columns(count)),
            header_count=min(count, len(lists.data)),
            first=lists.first,
            is_wide=lists.is_wide,
        )
    keys_column = draw(st.none() | binary_columns(rows))
    values = draw(st.none() | binary_columns(rows))
    return rows, times, keys_column, values, headers


@given(
    tables(),
    st.integers(0, 300),
    st.sampled_from([-1, 0, 2**31 - 2]),
    st.sampled_from([0, 90, 900]),
)
def test_encoded_batches_agree(
    table: tuple[int, bytes, object, object, object],
    batch_bytes: int,
    base_sequence: int,
    expected_bytes: int,
) -> None:
    template = TEMPLATE._replace(base_sequence=base_sequence)
    agree(
        lambda kernel: kernel.encode_batches(
            *table,
            template=template,
            batch_bytes=batch_bytes,
            expected_bytes=expected_bytes,
            allocate=lambda size: memoryview(bytearray(size)),
            crc_from=CRC_END,
            finish=reversed_copy,
        )
    )


SIZES = [0, 5, 31, 32, 33, 58, 63, 64, 65, 90, 300, 4000, 7936, 8000, 8001, 9000]


@pytest.mark.parametrize("seed", range(150))
def test_typical_rows_are_encoded_equally(seed: int) -> None:
    """Typical rows have their own path through the kernel, with its own edge cases."""
    rng = random.Random(seed)
    count = rng.randint(1, 60)
    sizes = SIZES if seed % 2 else SIZES[:11]
    keys = [rng.randbytes(rng.choice(sizes)) for _ in range(count)]
    values = [rng.randbytes(rng.choice(sizes)) for _ in range(count)]
    times = [rng.choice([1000, 1001, 1090, -7, 2**22, 2**60]) for _ in range(count)]
    first, has_tail = rng.randint(0, 2), rng.random() < 0.5
    batch_bytes = rng.choice([100, 1000, 20_000, 60_000])
    expected_bytes = rng.choice([0, 1000, 200_000])
    agree(
        lambda kernel: kernel.encode_batches(
            count,
            b"".join(time.to_bytes(8, "little", signed=True) for time in times),
            plain_column(keys, first, has_tail),
            plain_column(values, first, has_tail),
            None,
            template=TEMPLATE,
            batch_bytes=batch_bytes,
            expected_bytes=expected_bytes,
            allocate=lambda size: memoryview(bytearray(size)),
            crc_from=HEADER_BYTES if seed % 2 else CRC_END,
            finish=None if seed % 3 else lambda batch: batch[::-1],
        )
    )


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, 65_535, 65_536, 65_537, 200_003])
def test_crcs_of_any_length_agree(size: int) -> None:
    """The CRC of long batches is computed in three parts, with edge cases in their lengths."""
    value = random.Random(size).randbytes(size)
    offsets = struct.pack("=2i", 0, size)
    agree(
        lambda kernel: kernel.encode_batches(
            1,
            bytes(8),
            None,
            BinaryBuffers(None, offsets, value),
            None,
            template=TEMPLATE,
            batch_bytes=1_000_000,
            expected_bytes=0,
            allocate=lambda size: memoryview(bytearray(size)),
            crc_from=CRC_END,
            finish=None,
        )
    )


@given(st.binary(max_size=300), st.binary(max_size=3000))
def test_combined_crc_equals_that_of_the_whole(first: bytes, second: bytes) -> None:
    parts = crc32c(first), crc32c(second), len(second)
    agree(lambda kernel: kernel.combined_crc(*parts))
    assert pure_kernel.combined_crc(*parts) == crc32c(first + second)


def plain_column(cells: list[bytes], first: int, has_tail: bool) -> BinaryBuffers:
    """Return a column without nulls; other bytes may follow its last cell."""
    places, place = [0] * (first + 1), 0
    for content in cells:
        place += len(content)
        places.append(place)
    offsets = b"".join(each.to_bytes(4, "little") for each in places)
    return BinaryBuffers(None, offsets, b"".join(cells) + b"\xee" * (40 * has_tail), first)


@given(st.binary(max_size=300), st.integers(0, 70), st.integers(0, 400))
def test_scans_of_random_bytes_agree(noise: bytes, position: int, limit: int) -> None:
    agree(lambda kernel: kernel.scan(noise, position, limit))


@settings(max_examples=200)
@given(RECORDS, st.integers(0, 200), st.binary(min_size=1, max_size=1), st.integers(0, 500))
def test_scans_of_corrupt_logs_agree(
    records: list[Record], position: int, byte: bytes, limit: int
) -> None:
    log = bytearray(build_batch(records) + build_batch(records[:1]))
    log[position % len(log)] = byte[0]
    agree(lambda kernel: kernel.scan(log, 0, limit))


@st.composite
def logs(draw: st.DrawFn) -> bytearray:
    """Return contiguous batches, more or less as in a log, of several producers and epochs."""
    log, offset = bytearray(), draw(st.integers(0, 2))
    for _ in range(draw(st.integers(1, 20))):
        records = [Record(value=b"v", timestamp=draw(st.integers(-1, 50)))]
        batch = build_batch(
            records * draw(st.integers(1, 3)),
            base_offset=offset,
            leader_epoch=draw(st.sampled_from([3, 3, 3, 3, 3, 3, 3, -1, 4])),
            producer_id=draw(st.sampled_from([-1, 1, 1, 1, 2, 65])),
            producer_epoch=draw(st.sampled_from([0, 0, 0, 1])),
            base_sequence=0,
            is_transactional=draw(st.sampled_from([False, False, False, True])),
        )
        log += batch
        offset = read_header(batch).next_offset + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        offset = max(offset, 0)
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        log[draw(st.integers(0, len(log) - 1))] ^= 1 << draw(st.integers(0, 7))
    return log[: len(log) - draw(st.sampled_from([0, 0, 0, 1, 30, 80]))]


@settings(max_examples=300)
@given(logs(), st.integers(0, 300), st.sampled_from([2**40, 20]))
def test_runs_of_valid_batches_agree(log: bytearray, interval: int, highest: int) -> None:
    agree(
        lambda kernel: kernel.valid_run(
            log,
            1_000,
            lowest_offset=0,
            highest_offset=highest,
            leader_epoch=3,
            index_interval_bytes=interval,
            progress=IndexProgress(-1, 0, interval),
        )
    )


@settings(max_examples=300)
@given(logs(), st.integers(0, 200))
def test_headers_of_producers_agree(log: bytearray, cut: int) -> None:
    agree(lambda kernel: kernel.producer_headers(log[:-cut] if cut else log, 0))


@settings(max_examples=300)
@given(logs(), st.integers(0, 200))
def test_last_headers_agree(log: bytearray, cut: int) -> None:
    agree(lambda kernel: kernel.last_header(log[:-cut] if cut else log))


@given(st.binary(max_size=200))
def test_key_hashes_agree(key: bytes) -> None:
    agree(lambda kernel: kernel.murmur2(key))


@given(
    RECORDS,
    st.sampled_from(list(Codec)),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2),
    st.booleans(),
    st.integers(0, 100),
    st.booleans(),
)
def test_ordinary_batches_are_recognised_equally_and_pass_every_check(
    records: list[Record],
    codec: Codec,
    changes: list[tuple[int, int]],
    is_sealed: bool,
    room_bytes: int,
    validates: bool,
) -> None:
    batch = bytearray(build_batch(records, codec=codec))
    for position, value in changes:
        if position < len(batch):
            batch[position] = value
    if is_sealed:
        write_crc(batch, 0, len(batch))
    limit_bytes = len(batch) - 50 + room_bytes
    found = _kernel.ordinary_header(bytes(batch), limit_bytes, 0, 2**39, validates)
    assert found == pure_kernel.ordinary_header(bytes(batch), limit_bytes, 0, 2**39, validates)
    if found is not None:
        topic = TopicSettings(
            max_message_bytes=limit_bytes,
            # Compressed records are validated in a second step.
            headwater_record_validation_enable=validates and codec is Codec.NONE,
            message_timestamp_before_max_ms=2**38,
            message_timestamp_after_max_ms=2**38,
        )
        header = read_header(batch)
        result = check_client_batch(bytes(batch), header, settings=topic, now_ms=2**38)
        assert header == found
        assert corrected(batch, header, result, topic) == (batch, header)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kernel", [_kernel, pure_kernel])
def test_valid_batch_is_ordinary(kernel: ModuleType, codec: Codec) -> None:
    batch = build_batch(
        [Record(value=b"v", timestamp=5)], codec=codec, producer_id=3, base_sequence=0
    )
    assert kernel.ordinary_header(batch, len(batch), 0, 10, True) == read_header(batch)
    assert kernel.ordinary_header(batch, len(batch) - 1, 0, 10, True) is None
    assert kernel.ordinary_header(batch, len(batch), 6, 10, True) is None
    assert kernel.ordinary_header(batch, len(batch), 0, 4, True) is None


@given(RECORDS, st.integers(0, 5), st.booleans())
def test_consumer_records_agree(records: list[Record], skipped: int, has_append_time: bool) -> None:
    batch = bytearray(build_batch(records, base_offset=40))
    if has_append_time:
        batch[22] |= APPEND_TIME_FLAG
    header = read_header(batch)
    section = (bytes(batch), HEADER_BYTES, len(batch), header)

    def work(kernel: ModuleType) -> object:
        columns = kernel.decode_sections([section], first_offset=40 + skipped, expected_bytes=0)
        rows = columns.row_count
        made = kernel.consumed_records(columns, 0, rows, "t", 3, 7)
        assert made[1:] == kernel.consumed_records(columns, min(1, rows), rows, "t", 3, 7)
        return made

    assert agree(work) == [
        ConsumerRecord(
            topic="t",
            partition=3,
            offset=record.offset or 0,
            timestamp=record.timestamp,
            timestamp_type=header.timestamp_type,
            key=record.key,
            value=record.value,
            headers=record.headers,
            leader_epoch=7,
        )
        for record in list(read_records(batch, header))[skipped:]
    ]
