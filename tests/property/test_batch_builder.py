"""A batch built record by record equals one built at once, in both kernels."""

from types import ModuleType
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from headwater.records.batch_building import build_batch, encode_headers
from headwater.records.batch_header import HEADER_BYTES
from headwater.records.kernel import _kernel, pure_batch_builder
from headwater.records.record import Record

CONTENT = st.none() | st.binary(max_size=12) | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        key=CONTENT,
        value=CONTENT,
        timestamp=st.integers(-1, 2**40),
        headers=st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=40,
)


class Filled(NamedTuple):
    told: list[int]
    record_count: int
    size_bytes: int
    base_timestamp: int
    max_timestamp: int
    content: bytes
    told_after: int


def fill(kernel: ModuleType, records: list[Record], limit_bytes: int) -> Filled:
    """Return everything that a builder reports while it is filled."""
    builder = kernel.BatchBuilder(limit_bytes)
    told = []
    for record in records:
        tail = encode_headers(record.headers)
        told.append(builder.append(record.timestamp, record.key, record.value, tail))
        if told[-1] < 0:
            break
    state = (builder.count, builder.size_bytes, builder.base_timestamp, builder.max_timestamp)
    content = bytes(builder.take())
    return Filled(told, *state, content, builder.append(0, None, None))


@given(RECORDS, st.integers(0, 6_000))
def test_both_kernels_accept_the_same_records_and_give_the_same_bytes(
    records: list[Record], limit_bytes: int
) -> None:
    assert fill(_kernel, records, limit_bytes) == fill(pure_batch_builder, records, limit_bytes)


@given(RECORDS)
def test_batch_built_record_by_record_equals_one_built_at_once(records: list[Record]) -> None:
    filled = fill(pure_batch_builder, records, 2**31 - 1)
    whole = build_batch(records)
    assert filled.content[HEADER_BYTES:] == whole[HEADER_BYTES:]
    assert filled.content[:HEADER_BYTES] == bytes(HEADER_BYTES)
    assert (filled.record_count, filled.size_bytes) == (len(records), len(whole))
    assert filled.base_timestamp == records[0].timestamp
    assert filled.max_timestamp == max(record.timestamp for record in records)
    assert filled.told_after == -1


@given(RECORDS, st.integers(0, 6_000))
def test_only_the_first_record_may_exceed_the_limit(records: list[Record], limit: int) -> None:
    filled = fill(_kernel, records, limit)
    assert filled.record_count >= 1
    if filled.record_count > 1:
        assert len(filled.content) <= limit


def test_any_bytes_like_value_is_accepted() -> None:
    for kernel in (_kernel, pure_batch_builder):
        builder = kernel.BatchBuilder(1_000)
        assert builder.append(0, bytearray(b"k"), memoryview(b"value")) == 0
        assert b"value" in builder.take()
