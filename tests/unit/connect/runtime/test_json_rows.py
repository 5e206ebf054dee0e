"""Rows as JSON values and back."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.connect.runtime.task.json_rows import (
    MalformedValue,
    read_rows,
    schema_of,
    without_tombstones,
    write_rows,
)
from headwater.spark.exceptions import WrongColumns

SCHEMA = schema_of("id bigint, name string, tags array<struct<a:int>>, price decimal(5,2)")


def records(*pairs: tuple[bytes | None, bytes | None]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )


def test_rows_become_json_with_nulls_and_the_key_as_text() -> None:
    rows = pa.record_batch(
        {
            "id": [1, 2],
            "name": ["a", None],
            "raw": [b"\x00", None],
            "tags": [["x"], []],
            "inner": [{"n": 1}, {"n": None}],
        }
    )
    assert write_rows(rows, "id").to_pylist() == [
        {"key": b"1", "value": b'{"id":1,"name":"a","raw":"AA==","tags":["x"],"inner":{"n":1}}'},
        {"key": b"2", "value": b'{"id":2,"name":null,"raw":null,"tags":[],"inner":{"n":null}}'},
    ]


def test_columns_without_a_form_in_json_are_rejected() -> None:
    rows = pa.record_batch({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(WrongColumns, match="the column m"):
        write_rows(rows, None)
    with pytest.raises(WrongColumns, match="m cannot be map"):
        schema_of("m map<string,int>")


def test_values_become_rows_and_the_key_fills_its_column() -> None:
    given = records((b"7", b'{"name":"x","tags":[{"a":1}],"price":1.5}'), (b"8", None))
    found: list[dict[str, Any]] = read_rows(given, SCHEMA, "id").to_pylist()
    assert [each["id"] for each in found] == [7, 8]
    assert [each["__deleted"] for each in found] == [False, True]
    assert found[0]["tags"] == [{"a": 1}]


def test_tombstones_without_a_key_are_left_out() -> None:
    given = without_tombstones(records((None, b'{"id":1}'), (None, None)))
    assert [each["id"] for each in read_rows(given, SCHEMA, None).to_pylist()] == [1]


@pytest.mark.parametrize("value", [b"nonsense", b"[1]", b"null", b'{"id":"x"}', b"", b"1"])
def test_a_malformed_value_is_found(value: bytes) -> None:
    with pytest.raises(MalformedValue) as failure:
        read_rows(records((b"1", b'{"id":1}'), (b"2", value)), SCHEMA, "id")
    assert failure.value.row == 1
