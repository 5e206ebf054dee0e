"""Record kernel, compiled and pure: every test holds for both."""

from collections.abc import Callable
from types import ModuleType

import pytest

from headwater.common.exceptions import CorruptBatch, UnsupportedMagic
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, read_header
from headwater.records.kernel import _kernel, pure_kernel
from headwater.records.kernel.buffers import BinaryBuffers, RecordsSummary
from headwater.records.record import Record
from tests.unit.records.test_batch_header import COMMIT_MARKER, ONE_RECORD

SEED = bytes(range(16))
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}


@pytest.fixture(params=[_kernel, pure_kernel], ids=["compiled", "pure"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def test_new_block_is_not_reused_while_referenced(kernel: ModuleType) -> None:
    for size_bytes in (0, 1, 100_000, 3_000_000):
        blocks = [kernel.new_block(size_bytes) for _ in range(5)]
        for number, block in enumerate(blocks):
            assert len(block) == size_bytes
            block[:] = bytes([number]) * size_bytes
        views = [block[:] for block in blocks]
        del blocks, block
        more = [kernel.new_block(size_bytes) for _ in range(5)]
        for each in more:
            each[:] = b"x" * size_bytes
        assert views == [bytes([number]) * size_bytes for number in range(5)]


def section(*records: Record, base_offset: int = 0) -> bytes:
    return build_batch(records, base_offset=base_offset)[HEADER_BYTES:]


def keyed(*pairs: tuple[bytes | None, bytes | None]) -> bytes:
    return section(*(Record(key=key, value=value) for key, value in pairs))


def test_scan_finds_every_whole_batch(kernel: ModuleType) -> None:
    log = ONE_RECORD + COMMIT_MARKER + ONE_RECORD
    whole = [read_header(ONE_RECORD), read_header(COMMIT_MARKER), read_header(ONE_RECORD)]
    assert kernel.scan(log, 0, len(log)) == (whole, len(log))
    assert kernel.scan(memoryview(log), len(ONE_RECORD), len(log)) == (whole[1:], len(log))
    assert type(kernel.scan(log, 0, len(log))[0][0]) is type(whole[0])


@pytest.mark.parametrize("missing", [1, 9, 10, 69])
def test_incomplete_last_batch_ends_the_scan(kernel: ModuleType, missing: int) -> None:
    log = COMMIT_MARKER + ONE_RECORD
    end = (([read_header(COMMIT_MARKER)]), len(COMMIT_MARKER))
    assert kernel.scan(log[:-missing], 0, 10**9) == end
    assert kernel.scan(log, 0, len(log) - missing) == end


def test_scan_raises_on_corruption(kernel: ModuleType) -> None:
    for position, byte, failure in [
        (11, 3, CorruptBatch),
        (8, 0x80, CorruptBatch),
        (23, 0x80, CorruptBatch),
        (57, 0x80, CorruptBatch),
        (16, 1, UnsupportedMagic),
        (16, 0xFE, UnsupportedMagic),
    ]:
        damaged = bytearray(ONE_RECORD)
        damaged[position] = byte
        with pytest.raises(failure):
            kernel.scan(ONE_RECORD + damaged, 0, 1000)


def test_check_records_summarises_the_records(kernel: ModuleType) -> None:
    dense = section(Record(key=b"a", timestamp=5), Record(key=b"b", timestamp=9))
    assert kernel.check_records(dense, 2) == RecordsSummary(True, False, 4)
    gap = section(Record(key=b"a", offset=1), Record(key=None, offset=2))
    assert kernel.check_records(gap, 2) == RecordsSummary(False, True, 0)
    assert kernel.check_records(b"", 0) == RecordsSummary(True, False, None)


def refusals(kernel: ModuleType, payload: bytes, count: int) -> list[bool]:
    """Return whether each function that reads a section rejects it as corrupt."""
    header = read_header(ONE_RECORD)._replace(record_count=count)
    keep = bytes(max(count, 0) if count < 100 else 0)
    ways: list[Callable[[], object]] = [
        lambda: kernel.check_records(payload, count),
        lambda: kernel.decode_sections(
            [(payload, 0, len(payload), header)], first_offset=0, expected_bytes=0
        ),
        lambda: kernel.decode_sections(
            [(payload, 0, len(payload), header)], first_offset=2**60, expected_bytes=0
        ),
        lambda: kernel.map_records(kernel.OffsetMap(2400, 0.5, SEED), payload, count, 0),
        lambda: kernel.keep_mask(kernel.OffsetMap(2400, 0.5, SEED), payload, count, 0, True),
    ]
    if len(keep) == count:
        ways.append(lambda: kernel.filter_records(payload, count, keep, 0))
        ways.append(lambda: kernel.first_timestamp_delta(payload, count, keep))
    return [_is_refused(way) for way in ways]


def _is_refused(way: Callable[[], object]) -> bool:
    try:
        way()
    except CorruptBatch:
        return True
    return False


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_corrupt(kernel: ModuleType, count: int) -> None:
    payload = keyed((b"a", b"1"), (b"b", b"2"))
    assert all(refusals(kernel, payload, count))
    assert not any(refusals(kernel, payload, 2))


@pytest.mark.parametrize(
    "record",
    [
        "0e" + "00000001010001",  # a byte too many for its fields
        "0a" + "0000000101",  # no header count
        "0c" + "000000010101",  # a negative header count
        "0c" + "000000040100",  # a key that runs over the end
        "0c" + "000000010400",  # a value that runs over the end
        "10" + "0000000101020100",  # a header without a key
        "ffffffff0f" + "000000010100",  # a record of -2147483648 bytes
        "14" + "0000" + "8080808010" + "010100",  # an offset delta of more than 32 bits
        "16" + "0000" + "808080808000" + "010100",  # an offset delta of more than five bytes
        "1e" + "00" + "80808080808080808002" + "00010100",  # a timestamp of more than 64 bits
        "20" + "00" + "8080808080808080808000" + "00010100",  # one of more than ten bytes
    ],
)
def test_malformed_record_is_corrupt(kernel: ModuleType, record: str) -> None:
    assert all(refusals(kernel, bytes.fromhex(record), 1))


@pytest.mark.parametrize(
    "record",
    [
        "14" + "0000" + "ffffffff0f" + "010100",  # the smallest offset delta
        "1e" + "00" + "ffffffffffffffffff01" + "00010100",  # the smallest timestamp delta
        "0e" + "00008000" + "010100",  # a number that is longer than it need be
    ],
)
def test_largest_numbers_of_a_field_are_read(kernel: ModuleType, record: str) -> None:
    assert kernel.check_records(bytes.fromhex(record), 1).max_timestamp_delta in (0, -(2**63))


def test_any_negative_length_is_null(kernel: ModuleType) -> None:
    """As in Kafka."""
    assert kernel.check_records(bytes.fromhex("0c000000050700"), 1).has_null_key


def test_filter_keeps_the_chosen_records(kernel: ModuleType) -> None:
    records = [Record(key=b"%d" % number, timestamp=100 + number) for number in range(4)]
    payload = section(*records)
    size = len(payload) // 4
    kept = payload[size : 2 * size] + payload[3 * size :]
    assert kernel.filter_records(payload, 4, b"\0\1\0\1", 0) == (kept, 2, 3)
    assert kernel.filter_records(payload, 4, bytes(4), 0) == (b"", 0, None)
    assert kernel.first_timestamp_delta(payload, 4, b"\0\0\1\1") == 2
    assert kernel.first_timestamp_delta(payload, 4, bytes(4)) is None


@pytest.mark.parametrize("shift", [1, -1, 10**12, -(10**12), 2**62])
def test_shifted_base_timestamp_shifts_the_deltas_back(kernel: ModuleType, shift: int) -> None:
    payload = section(Record(key=b"a", timestamp=100), Record(key=b"b", timestamp=90))
    moved, kept, latest = kernel.filter_records(payload, 2, b"\1\1", shift)
    assert (kept, latest) == (2, -shift)
    assert kernel.filter_records(moved, 2, b"\1\1", -shift) == (payload, 2, 0)


def test_offset_map_keeps_the_last_offset_of_a_key(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(2400, 0.5, SEED)
    assert (offsets.capacity, len(offsets), offsets.latest_offset) == (50, 0, -1)
    assert offsets.get(b"a") == -1
    assert offsets.put(b"a", 0)
    assert offsets.put(b"", 3)
    assert offsets.put(b"a", 7)
    assert (offsets.get(b"a"), offsets.get(b""), offsets.get(b"b"), len(offsets)) == (7, 3, -1, 2)


def test_offset_map_distinguishes_many_keys(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(24 * 2000, 0.75, SEED)
    for number in range(1500):
        assert offsets.put(b"key-%d" % number, number)
    assert len(offsets) == offsets.capacity == 1500
    assert [offsets.get(b"key-%d" % number) for number in range(1500)] == list(range(1500))
    assert offsets.get(b"key-1500") == -1


def test_full_offset_map_refuses_new_keys_and_updates_known_ones(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(240, 0.9, SEED)
    assert offsets.capacity == 9
    assert all(offsets.put(b"%d" % number, number) for number in range(9))
    assert not offsets.put(b"new", 9)
    assert offsets.put(b"5", 10)
    assert (offsets.get(b"new"), offsets.get(b"5"), len(offsets)) == (-1, 10, 9)


@pytest.mark.parametrize("memory_bytes", [0, 23, 24])
def test_offset_map_without_memory_is_always_full(kernel: ModuleType, memory_bytes: int) -> None:
    offsets = kernel.OffsetMap(memory_bytes, 0.75, SEED)
    assert offsets.capacity == 0
    assert not offsets.put(b"a", 0)
    assert offsets.get(b"a") == -1


def test_mapping_stops_at_a_full_map(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(72, 0.7, SEED)
    assert offsets.capacity == 2
    payload = keyed((b"a", b"1"), (None, b"2"), (b"b", b"3"), (b"a", b"4"), (b"c", b"5"))
    assert kernel.map_records(offsets, payload, 5, 100) == 4
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.latest_offset) == (103, 102, 103)


def test_corrupt_section_is_not_mapped(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(2400, 0.5, SEED)
    payload = keyed((b"a", b"1"), (b"b", b"2"))
    with pytest.raises(CorruptBatch):
        kernel.map_records(offsets, payload + b"\0", 2, 0)
    assert (len(offsets), offsets.latest_offset) == (0, -1)


def test_compaction_keeps_the_newest_of_each_key(kernel: ModuleType) -> None:
    """CP-3."""
    offsets = kernel.OffsetMap(2400, 0.5, SEED)
    payload = keyed((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4"), (b"b", None))
    assert kernel.map_records(offsets, payload, 5, 10) == 5
    assert kernel.keep_mask(offsets, payload, 5, 10, True) == (b"\0\0\1\0\1", 2, 1)
    assert kernel.keep_mask(offsets, payload, 5, 10, False) == (b"\0\0\1\0\0", 1, 0)


def test_records_beyond_the_map_are_kept(kernel: ModuleType) -> None:
    """CP-3: nothing is known yet about records after the last mapped offset."""
    offsets = kernel.OffsetMap(2400, 0.5, SEED)
    offsets.put(b"a", 11)
    offsets.latest_offset = 11
    payload = keyed((b"a", b"1"), (b"a", None), (b"a", None), (None, b"4"))
    assert kernel.keep_mask(offsets, payload, 4, 10, False) == (b"\0\0\1\1", 2, 1)


def test_unmapped_key_is_kept(kernel: ModuleType) -> None:
    """CP-3: clean records whose key does not occur in the dirty part stay."""
    offsets = kernel.OffsetMap(2400, 0.5, SEED)
    offsets.latest_offset = 50
    assert kernel.keep_mask(offsets, keyed((b"a", b"1")), 1, 10, False) == (b"\1", 1, 0)


@pytest.mark.parametrize(("key", "expected"), MURMUR2.items())
def test_murmur2_equals_kafkas(kernel: ModuleType, key: bytes, expected: int) -> None:
    assert kernel.murmur2(key) == expected


def test_column_hashes_equal_single_hashes(kernel: ModuleType) -> None:
    keys = list(MURMUR2)
    places = [0]
    for key in keys:
        places.append(places[-1] + len(key))
    for width, is_wide in ((4, False), (8, True)):
        offsets = b"".join(place.to_bytes(width, "little") for place in places)
        column = BinaryBuffers(b"\xfb", offsets, b"".join(keys), 1, is_wide)
        expected = [0 if key == keys[2] else MURMUR2[key] for key in keys[1:]]
        hashes = memoryview(kernel.murmur2_column(len(keys) - 1, column)).cast("i")
        assert hashes.tolist() == expected


def test_column_beyond_its_data_is_rejected(kernel: ModuleType) -> None:
    for offsets in ([0, 5], [0], [3, 1], [-1, 2]):
        buffer = b"".join(place.to_bytes(4, "little", signed=True) for place in offsets)
        with pytest.raises(CorruptBatch):
            kernel.murmur2_column(1, BinaryBuffers(None, buffer, b"abcd"))
    with pytest.raises(CorruptBatch):
        kernel.murmur2_column(1, BinaryBuffers(b"", bytes(8), b"abcd"))


def test_map_keys_are_hashed_with_siphash() -> None:
    """The reference vectors of SipHash-2-4 with 128 bits: key 00..0f, input of 0 and 15 bytes."""
    assert _kernel.siphash128(SEED, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert _kernel.siphash128(SEED, bytes(range(15))).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"
