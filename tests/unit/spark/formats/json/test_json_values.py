"""JSON into typed columns and back: what fits, what does not, and which record is told."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import UnparsableRecord
from headwater.spark.formats.json.json_reader import NotJson, read_json
from headwater.spark.formats.json.json_writer import write_json
from headwater.spark.formats.typed_values import JsonColumn, written
from headwater.spark.formats.value_formats import ValueFormat
from headwater.spark.source.row_decoder import to_rows

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
EVERYTHING = pa.struct(
    [
        ("small", pa.int8()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("is_paid", pa.bool_()),
        ("price", pa.decimal128(10, 2)),
        ("lines", pa.list_(pa.field("element", pa.struct([("x", pa.int32())])))),
        ("inner", pa.struct([("y", pa.string())])),
    ]
)
FULL: dict[str, Any] = {
    "small": -7,
    "text": 'a "quote", a \\, a tab\t, a bell\x07, an é',
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC),
    "local": dt.datetime.fromisoformat("2026-01-02T03:04:05"),
    "day": dt.date(2026, 1, 2),
    "ratio": 1.25,
    "is_paid": True,
    "price": Decimal("12.30"),
    "lines": [{"x": 1}, None, {"x": None}],
    "inner": {"y": "z"},
}


def raw(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


def test_missing_fields_are_null_and_unknown_ones_are_passed_over() -> None:
    found = read_json(raw(b'{"id": 1, "name": "a"}', b'{"id": 2, "more": [1, {}]}', b"{}"), ORDER)
    assert found.to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
        {"id": None, "name": None},
    ]


def test_a_tombstone_and_the_word_null_are_null() -> None:
    assert read_json(raw(None, b"null", b'{"id": 3}'), ORDER).to_pylist() == [
        None,
        None,
        {"id": 3, "name": None},
    ]


def test_values_need_not_be_objects() -> None:
    assert read_json(raw(b"1", b" 2 "), pa.int32()).to_pylist() == [1, 2]
    assert read_json(raw(b"[1,\n2]"), pa.list_(pa.int64())).to_pylist() == [[1, 2]]


def test_what_was_written_is_read_again() -> None:
    values = pa.array([FULL, None, {}, {"lines": []}, {"inner": {}}], EVERYTHING)
    assert read_json(write_json(values), EVERYTHING).equals(values)


def test_texts_are_json_without_the_fields_that_are_null() -> None:
    values = pa.array([FULL, None, {"text": "\n"}, {"lines": [None]}], EVERYTHING)
    first, second, third, fourth = write_json(values).to_pylist()
    assert json.loads(first) == FULL | {
        "at": "2026-01-02T03:04:05.678901Z",
        "local": "2026-01-02T03:04:05.000",
        "day": "2026-01-02",
        "price": 12.3,
        "lines": [{"x": 1}, None, {}],
    }
    assert (second, third, fourth) == (None, b'{"text":"\\n"}', b'{"lines":[null]}')


def test_a_part_of_a_column_is_written_as_that_part() -> None:
    values = pa.array([{"lines": [{"x": n}]} for n in range(5)], EVERYTHING)
    assert write_json(values.slice(3)).to_pylist() == [
        b'{"lines":[{"x":3}]}',
        b'{"lines":[{"x":4}]}',
    ]


def test_numbers_that_json_has_not_are_texts() -> None:
    values = pa.array([float("nan"), float("inf"), float("-inf"), None, 0.5])
    assert write_json(values).to_pylist() == [
        b'"NaN"',
        b'"Infinity"',
        b'"-Infinity"',
        None,
        b"0.5",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b" ",
        b"tea",
        b'{"id": 1',
        b'{"id": 1}}',
        b'{"id": 1} {"id": 2}',
        b'{"id": 1}}{"v":{"id": 2}',
        b'{"id": "1"}',
        b'{"id": 1.5}',
        b'{"id": 9223372036854775808}',
        b'{"id": 1, "id": 2}',
        b'{"name": 5}',
        b'{"name": "\xff"}',
        b'{"name": "',
        b"[1]",
    ],
)
def test_record_that_does_not_match_is_reported(bad: bytes) -> None:
    values = raw(*[b'{"id": 1}'] * 5, None, bad, b'{"id": 2}', bad)
    with pytest.raises(NotJson) as refused:
        read_json(values, ORDER)
    assert refused.value.index == 6
    assert "\n" not in str(refused.value)
    found = read_json(values, ORDER, is_lenient=True).to_pylist()
    assert found[5:] == [None, None, {"id": 2, "name": None}, None]


def test_failed_query_names_the_record() -> None:
    partition = TopicPartition("orders", 3)
    records = pa.RecordBatch.from_pydict(
        {"offset": pa.array([40, 42], pa.int64()), "value": raw(b'{"id": 1}', b"tea")}
    )
    make = to_rows(partition, ["value", "offset"], frozenset(), {"value": JsonColumn(ORDER, False)})
    with pytest.raises(
        UnparsableRecord, match="the value of orders-3 at offset 42 is not the JSON"
    ):
        make(records)
    lenient = to_rows(partition, ["value"], frozenset(), {"value": JsonColumn(ORDER, True)})
    assert lenient(records).column("value").to_pylist() == [{"id": 1, "name": None}, None]


def test_typed_columns_are_sent_as_bytes_and_others_as_they_are() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"key": pa.array(["a"]), "value": pa.array([{"id": 1, "name": "b"}], ORDER)}
    )
    (sent,) = written([rows], {"value": ValueFormat.JSON})
    assert sent.to_pydict() == {"key": ["a"], "value": [b'{"id":1,"name":"b"}']}
