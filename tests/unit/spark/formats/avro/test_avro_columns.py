"""Types, defaults and refusals of Avro columns; that bytes are right is held by properties."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.schemas.avro.resolved_schema import Schema, parse_schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import UnwritableRow, WrongColumns
from headwater.spark.formats.avro.avro_reader import AvroReader, ReadColumn
from headwater.spark.formats.avro.avro_writer import avro_writer
from headwater.spark.formats.avro.column_types import column_type, ddl
from headwater.spark.formats.avro.schema_text import cut, schema_text


def record(*fields: Any, name: str = "R") -> Schema:
    return parse_schema(
        json.dumps(
            {
                "type": "record",
                "name": name,
                "fields": [
                    each if isinstance(each, dict) else {"name": each[0], "type": each[1]}
                    for each in fields
                ],
            }
        )
    )


def column(values: list[Any], kind: Any) -> Any:
    return pa.array(values, kind)


def sent(schema: Schema, values: list[Any], kind: Any = None, schema_id: int = 7) -> Any:
    kind = kind or column_type(schema)
    return avro_writer(schema, kind, schema_id)(column(values, kind))


def read(values: Any, reader: Schema, **writers: Schema) -> ReadColumn:
    """Writers' schemas by their ids, as in `_7=schema`."""
    return AvroReader(reader, lambda number: writers.get(f"_{number}")).read(values)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("boolean", "boolean"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "bigint"),
        ({"type": "long", "logicalType": "date"}, "bigint"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "binary"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        (["null", "long"], "bigint"),
        (["int", "null", "long"], "bigint"),
        (["float", "double"], "double"),
        (["null", "int", "string"], "struct<`member0`: int, `member1`: string>"),
        ({"type": "map", "values": ["null", "int"]}, "map<string, int>"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, "array<array<int>>"),
    ],
)
def test_each_type_of_avro_has_one_in_spark(schema: Any, kind: str) -> None:
    assert ddl(column_type(parse_schema(json.dumps(schema)))) == kind


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("nonsense", "the Avro schema is not JSON"),
        ('"Missing"', "undefined type Missing"),
        ('{"type": "record", "name": "R"}', "the record R has no fields"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}',
            "is recursive",
        ),
        ('["int", "int"]', "which must contain each type once"),
        ('{"type": "enum", "name": "E"}', "the enum E has no symbols"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the fixed F has no size"),
        ('{"type": "record", "fields": []}', "needs a name"),
        ("[" * 99 + "]" * 99, "invalid Avro"),
    ],
)
def test_invalid_or_unsupported_schema_is_reported_with_a_reason(schema: str, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        parse_schema(schema)


def test_names_that_differ_in_case_only_are_refused_because_spark_cannot_tell_them_apart() -> None:
    with pytest.raises(UnsupportedSchema, match="upper and lower case"):
        column_type(record(("a", "int"), ("A", "int")))


def test_a_reader_sees_defaults_aliases_and_wider_types_and_not_what_it_does_not_know() -> None:
    writer = record(("old", "int"), ("gone", "string"), ("price", "float"))
    reader = record(
        {"name": "new", "type": "long", "aliases": ["old"]},
        ("price", "double"),
        {"name": "many", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "either", "type": ["string", "int"], "default": "x"},
    )
    found = read(sent(writer, [{"old": 1, "gone": "x", "price": 0.5}]), reader, _7=writer)
    assert found.values.to_pylist() == [
        {
            "new": 1,
            "price": 0.5,
            "many": [1, 2],
            "raw": b"\xff",
            "note": None,
            "either": {"member0": "x", "member1": None},
        }
    ]


def test_milliseconds_and_microseconds_are_the_same_instant() -> None:
    writer = parse_schema('{"type": "long", "logicalType": "timestamp-millis"}')
    reader = parse_schema('{"type": "long", "logicalType": "timestamp-micros"}')
    kind: Any = column_type(writer)
    moment = pa.array([1_700_000_000_123_000], pa.int64()).cast(kind)
    assert read(avro_writer(writer, kind, 7)(moment), reader, _7=writer).values.equals(moment)


def test_records_of_several_schemas_are_read_together_and_bad_ones_are_reported() -> None:
    first, second = record(("a", "int")), record(("a", "long"), ("b", "string"))
    values = [
        *sent(first, [{"a": 1}]).to_pylist(),
        None,
        *sent(second, [{"a": 2, "b": "x"}], schema_id=8).to_pylist(),
        b"\x00\x00",
        b"\x01" * 9,
        *sent(first, [{"a": 3}], schema_id=9).to_pylist(),
        *sent(first, [{"a": 4}], schema_id=10).to_pylist(),
    ]
    words = record(("a", "string"))
    found = read(column(values, pa.binary()), record(("a", "long")), _7=first, _8=second, _10=words)
    assert found.values.to_pylist() == [{"a": 1}, None, {"a": 2}, None, None, None, None]
    assert found.unreadable == {
        3: "it does not begin with 0 and the id of a schema",
        4: "it does not begin with 0 and the id of a schema",
        5: "the registry has no schema 9",
        6: "schema 10 cannot be read as the reader's schema: value.a is written as string, not as "
        "long",
    }


def test_corrupt_record_is_reported_with_its_field() -> None:
    schema = record(("lines", {"type": "array", "items": ["null", "string"]}))
    [whole] = sent(schema, [{"lines": ["a", "b"]}]).to_pylist()
    found = read(column([whole, whole[:-2], whole + b"!"], pa.binary()), schema, _7=schema)
    assert found.unreadable == {
        1: "lines.[1]: the record ends too early (schema 7)",
        2: "it is 1 bytes longer than its schema says (schema 7)",
    }
    assert found.values.to_pylist() == [{"lines": ["a", "b"]}, None, None]


def test_a_very_long_array_is_read_beside_short_ones() -> None:
    schema = record(("numbers", {"type": "array", "items": "long"}))
    rows = [{"numbers": list(range(count))} for count in (3, 5_000, 0)]
    assert read(sent(schema, rows), schema, _7=schema).values.to_pylist() == rows


def test_a_count_of_items_without_bytes_does_not_take_all_memory() -> None:
    schema = record(("nothing", {"type": "array", "items": "null"}))
    lie = b"\0\0\0\0\7" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"
    found = read(column([lie] * 2, pa.binary()), schema, _7=schema)
    assert all("all of them empty" in reason for reason in found.unreadable.values())


STRUCT = pa.struct([("id", pa.int64()), ("name", pa.string())])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([("id", "long")], "the schema R has no field name: leave it out of the rows, or add it"),
        (
            [("id", "long"), ("name", "string"), ("x", "int")],
            "no column x, and the schema has no d",
        ),
        ([("id", "string"), ("name", "string")], "id is of type bigint, and the schema has string"),
        ([("id", "long"), ("name", ["null", "int"])], r"name is of type string.* \[null, int\]"),
    ],
)
def test_columns_that_a_schema_has_not_are_refused_before_any_row(
    fields: list[Any], reason: str
) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        avro_writer(record(*fields), STRUCT, 7)


@pytest.mark.parametrize(
    ("schema", "kind", "value", "reason"),
    [
        ("int", pa.int64(), 1 << 31, "a is no int: 2147483648"),
        ("long", pa.int64(), None, "a is null in a row, and the schema has long without null"),
        (["int", "string"], pa.int32(), None, "a is null in a row, and the schema has no null"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, pa.string(), "Y", "not a symbol"),
        (
            {"type": "fixed", "name": "F", "size": 2},
            pa.binary(),
            b"abc",
            "not have the 2 bytes",
        ),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            pa.string(),
            "x",
            "a is not a UUID",
        ),
        (
            {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 5},
            pa.decimal128(5, 0),
            Decimal(128),
            "does not fit into the 1 bytes",
        ),
    ],
)
def test_row_that_does_not_match_the_schema_is_reported_with_its_column(
    schema: Any, kind: Any, value: Any, reason: str
) -> None:
    with pytest.raises(UnwritableRow, match=reason):
        sent(record(("a", schema)), [{"a": value}], pa.struct([("a", kind)]))


def test_a_field_that_rows_have_not_is_written_as_its_default() -> None:
    schema = record(
        ("id", "long"),
        ("name", "string"),
        {"name": "grams", "type": "int", "default": 100},
        ("note", ["null", "string"]),
    )
    found = read(sent(schema, [{"id": 1, "name": "x"}], STRUCT), schema, _7=schema)
    assert found.values.to_pylist() == [{"id": 1, "name": "x", "grams": 100, "note": None}]


def test_a_type_chooses_among_the_fields_of_a_schema() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": n, "type": "int"} for n in "xy"]}
    schema = record(("a", "long"), ("b", ["null", inner]), ("c", {"type": "map", "values": "I"}))
    kinds = [pa.struct([(name, pa.int32())]) for name in "yx"]
    wanted = pa.struct([("b", kinds[0]), ("c", pa.map_(pa.string(), kinds[1]))])
    chosen = cut(schema, wanted, "value")
    assert column_type(chosen) == wanted
    assert parse_schema(schema_text(chosen)) == chosen
    row = {"a": 1, "b": {"x": 2, "y": 3}, "c": [("k", {"x": 4, "y": 5})]}
    assert read(sent(schema, [row]), chosen, _7=schema).values.to_pylist() == [
        {"b": {"y": 3}, "c": [("k", {"x": 4})]}
    ]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (pa.struct([("z", pa.int64())]), "the Avro schema has no value.z; it has a"),
        (pa.struct([("a", pa.string())]), "value.a is bigint in the Avro schema, not string"),
    ],
)
def test_type_that_the_schema_does_not_have_is_reported(wanted: Any, reason: str) -> None:
    with pytest.raises(WrongColumns, match=reason):
        cut(record(("a", "long")), wanted, "value")


def test_a_branch_of_the_writers_own_type_is_taken_before_one_that_it_can_be_read_as() -> None:
    writer, reader = parse_schema('"int"'), parse_schema('["double", "int"]')
    found = read(sent(writer, [1]), reader, _7=writer)
    assert found.values.to_pylist() == [{"member0": None, "member1": 1}]


def test_a_time_that_no_microseconds_have_is_unreadable_and_not_another_time() -> None:
    long, millis = parse_schema('"long"'), '{"type": "long", "logicalType": "timestamp-millis"}'
    found = read(sent(long, [1 << 60]), parse_schema(millis), _7=long)
    assert "is out of range" in found.unreadable[0]
