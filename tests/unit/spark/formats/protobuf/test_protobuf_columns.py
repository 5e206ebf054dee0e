"""Columns of Protobuf: types, values, bad records, and back again."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.schemas.errors import UnsupportedSchema
from headwater.schemas.protobuf.messages import MessageClasses
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.schemas.protobuf.schema_reader import read_schema
from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.protobuf.protobuf_reader import ProtobufReader
from headwater.spark.formats.protobuf.protobuf_writer import column_kind, protobuf_writer

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Other { int32 a = 1; }
message Tea {
  string name = 1;
  optional int32 grams = 2;
  uint64 big = 3;
  Kind kind = 4;
  repeated Leaf leaves = 5;
  map<string, Leaf> by_name = 6;
  oneof price { double euros = 7; int64 cents = 8; }
  google.protobuf.Timestamp picked = 9;
  google.protobuf.StringValue note = 10;
  google.protobuf.Struct more = 11;
  bytes raw = 12;
  repeated uint32 numbers = 13;
  Leaf leaf = 14;
  message Leaf { float size = 1; repeated Kind kinds = 2; }
}
enum Kind { NONE = 0; GREEN = 1; }
"""
ROWS: list[dict[str, Any]] = [
    {
        "name": "green",
        "grams": 0,
        "big": 2**64 - 1,
        "kind": "GREEN",
        "leaves": [{"size": 1.5, "kinds": ["GREEN", "NONE"]}, {"size": 0.0, "kinds": []}],
        "by_name": [("x", {"size": 2.0, "kinds": []})],
        "euros": None,
        "cents": 5,
        "picked": 1_700_000_000_123_456,
        "note": "",
        "more": '{"a": [1.0, null]}',
        "raw": b"\xff\0",
        "numbers": [0, 2**32 - 1],
        "leaf": {"size": -1.0, "kinds": ["7"]},
    },
    {
        "name": "",
        "grams": None,
        "big": 0,
        "kind": "NONE",
        "leaves": [],
        "by_name": [],
        "euros": 0.0,
        "cents": None,
        "picked": -1,
        "note": None,
        "more": None,
        "raw": b"",
        "numbers": [],
        "leaf": None,
    },
]


def schema() -> ProtobufSchema:
    return read_schema(TEXT)


def column(rows: list[dict[str, Any] | None]) -> Any:
    kind: Any = column_kind(schema(), "shop.Tea")
    make: Any = pa.array
    return make(rows, kind)


def reader(text: str = TEXT, message: str = "shop.Tea") -> ProtobufReader:
    return ProtobufReader(read_schema(text), message, {7: schema()}.get)


def test_types_are_sparks() -> None:
    kind: Any = column_kind(schema(), "shop.Tea")
    assert {each.name: str(each.type) for each in kind.fields} == {
        "name": "string",
        "grams": "int32",
        "big": "decimal128(20, 0)",
        "kind": "string",
        "leaves": "list<element: struct<size: float, kinds: list<element: string>>>",
        "by_name": "map<string, struct<size: float, kinds: list<element: string>>>",
        "euros": "double",
        "cents": "int64",
        "picked": "timestamp[us, tz=UTC]",
        "note": "string",
        "more": "string",
        "raw": "binary",
        "numbers": "list<element: int64>",
        "leaf": "struct<size: float, kinds: list<element: string>>",
    }


def test_rows_are_written_and_read_again() -> None:
    given = column([ROWS[0], None, ROWS[1]])
    written = protobuf_writer(schema(), "shop.Tea", given.type, 7)(given)
    assert written[1].as_py() is None
    assert written[0].as_py()[:7] == b"\0\0\0\0\7\x02\x02"
    found = reader().read(written)
    assert found.unreadable == {}
    assert found.values.to_pylist() == given.to_pylist()
    found.values.validate(full=True)


def test_runtime_reads_what_is_written() -> None:
    given = column([ROWS[0]])
    raw = protobuf_writer(schema(), "shop.Tea", given.type, 7)(given)[0].as_py()
    message = MessageClasses(schema()).named("shop.Tea").FromString(raw[7:])
    assert (message.big, message.kind, message.picked.nanos) == (2**64 - 1, 1, 123_456_000)
    assert message.HasField("note")
    assert message.WhichOneof("price") == "cents"


def test_reader_of_another_version_drops_and_adds_fields() -> None:
    given = column([ROWS[0]])
    written = protobuf_writer(schema(), "shop.Tea", given.type, 7)(given)
    newer = 'syntax = "proto3"; package shop; message Tea { string label = 1; bool added = 99; }'
    found = reader(newer).read(written)
    assert found.values.to_pylist() == [{"label": "green", "added": False}]


def test_bad_records_are_null_and_have_a_reason() -> None:
    given = column([ROWS[0]])
    good = protobuf_writer(schema(), "shop.Tea", given.type, 7)(given)[0].as_py()
    rows = [good, b"", b"\1" + good[1:], good[:5] + b"\x00", good[:-1], b"\0\0\0\0\x09\0", None]
    rows.append(good[:5] + b"\x02\x0a")
    make: Any = pa.array
    found = reader().read(make(rows, pa.binary()))
    assert [each is None for each in found.values.to_pylist()] == [False] + [True] * 7
    assert sorted(found.unreadable) == [1, 2, 3, 4, 5, 7]
    assert "it does not begin with 0" in found.unreadable[1]
    assert found.unreadable[3] == "it is a shop.Other of schema 7, not a shop.Tea"
    assert found.unreadable[5] == "the registry has no schema 9"
    assert "no message at [5]" in found.unreadable[7]


def test_values_beyond_sparks_types_make_a_record_unreadable() -> None:
    kind = MessageClasses(schema()).named("shop.Tea")
    late, strange, good = kind(name="late"), kind(name="strange"), kind(name="good")
    late.picked.seconds = 2**62
    strange.more.fields["a"].number_value = float("nan")
    rows = [b"\0\0\0\0\7\x02\x02" + each.SerializeToString() for each in (late, strange, good)]
    make: Any = pa.array
    found = reader().read(make(rows, pa.binary()))
    assert sorted(found.unreadable) == [0, 1]
    values = found.values.to_pylist()
    assert values[:2] == [None, None]
    assert values[2]["name"] == "good"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Tea tea = 1;", "inside of itself"),
        ("", "has no fields"),
        ("int32 a = 1; int32 A = 2;", "upper and lower case"),
    ],
)
def test_messages_without_a_type_in_spark(body: str, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        reader(f'syntax = "proto3"; package shop; message Tea {{ {body} }}')


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.struct([pa.field("colour", pa.string())]), "has no field colour"),
        (pa.struct([pa.field("name", pa.int32())]), "value.name is int32"),
        (pa.struct([pa.field("leaves", pa.string())]), "the field is repeated"),
        (pa.struct([pa.field("by_name", pa.string())]), "the field is a map"),
        (pa.string(), "a struct is needed"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_a_row(kind: Any, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        protobuf_writer(schema(), "shop.Tea", kind, 7)


@pytest.mark.parametrize(
    "row",
    [{"kind": "RED"}, {"numbers": [None]}, {"numbers": [-1]}, {"more": "no json"}],
)
def test_rows_that_do_not_fit_stop_the_task(row: dict[str, Any]) -> None:
    given = column([row])
    kind = pa.struct([each for each in given.type.fields if each.name in row])
    make: Any = pa.array
    with pytest.raises(WrongColumns, match=r"a row does not fit the message shop\.Tea"):
        protobuf_writer(schema(), "shop.Tea", kind, 7)(make([row], kind))
