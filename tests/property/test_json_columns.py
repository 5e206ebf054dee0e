"""JSON columns: records do not influence each other."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.spark.formats.json.json_reader import read_json
from headwater.spark.formats.json.json_writer import write_json

ORDER = pa.struct([("v", pa.int64()), ("name", pa.string())])

# Fragments that could close the wrapping of a record, or open what the next one closes.
PIECES = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\n",
    b" ",
    b'"v"',
    b"1",
    b"null",
    b"\\",
    b"\xff",
)
whole = st.sampled_from([b'{"v":1}', b'{"name":"a"}', b"{}", b"null"])
broken = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
records = st.lists(st.none() | whole | broken | st.binary(max_size=8), max_size=6)


@settings(max_examples=300, deadline=None)
@given(records)
def test_record_is_read_as_if_it_were_alone(values: list[bytes | None]) -> None:
    together = read_json(pa.array(values, pa.binary()), ORDER, is_lenient=True).to_pylist()
    alone = [
        read_json(pa.array([value], pa.binary()), ORDER, is_lenient=True).to_pylist()[0]
        for value in values
    ]
    assert together == alone


plain = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(max_size=20),
        "flags": st.none() | st.lists(st.none() | st.booleans(), max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"text": st.none() | st.text(max_size=20)}),
    }
)
KIND = pa.struct(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("flags", pa.list_(pa.field("element", pa.bool_()))),
        ("inner", pa.struct([("text", pa.string())])),
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.none() | plain, max_size=5))
def test_written_json_is_read_by_python_and_by_us(values: list[dict[str, Any] | None]) -> None:
    column = pa.array(values, KIND)
    written = write_json(column)
    assert [None if text is None else json.loads(text) for text in written.to_pylist()] == [
        None if value is None else without_nulls(value) for value in values
    ]
    assert read_json(written, KIND).equals(column)


def without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: without_nulls(each) if isinstance(each, dict) else each
        for name, each in value.items()
        if each is not None
    }
