"""Columns of JSON are derived from samples and schemas."""

from typing import Any

import pyarrow as pa

from headwater.sql.json_columns import (
    MIXED,
    NUMBER,
    Kind,
    ListOf,
    ObjectOf,
    arrow_type,
    kind_of,
    kind_of_schema,
    merged_all,
)

# The stubs want fields.
struct: Any = pa.struct


def sampled(*values: object) -> Kind:
    return merged_all(map(kind_of, values))


def test_types_of_records_are_merged() -> None:
    kind = sampled({"id": 1, "tags": ["a"]}, {"id": 2.5, "shop": {"city": None}}, {"tags": []})
    assert arrow_type(kind) == struct(
        {
            "id": pa.float64(),
            "tags": pa.list_(pa.field("element", pa.string())),
            "shop": struct({"city": pa.string()}),
        }
    )


def test_a_field_of_several_types_is_mixed() -> None:
    kind = sampled({"id": 1}, {"id": "x"}, {"id": None})
    assert isinstance(kind, ObjectOf)
    assert kind.fields["id"] == MIXED
    assert arrow_type(kind.fields["id"]) is None


def test_numbers_beyond_64_bits_are_floats() -> None:
    assert sampled(2**63) == NUMBER
    assert sampled(2**63 - 1) != NUMBER


def test_an_object_whose_names_are_data_is_mixed() -> None:
    assert sampled(*({f"name{each}": 1} for each in range(1_000))) == MIXED


def test_a_json_schema_gives_types() -> None:
    kind = kind_of_schema(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "shop": {"$ref": "#/$defs/shop"},
                "any": {},
                "tags": {"type": "array", "items": {"type": ["string", "null"]}},
            },
            "$defs": {"shop": {"type": "object", "properties": {"size": {"type": "number"}}}},
        }
    )
    assert isinstance(kind, ObjectOf)
    assert kind.fields["any"] == MIXED
    assert arrow_type(kind.fields["note"]) == pa.string()
    assert arrow_type(kind.fields["shop"]) == struct({"size": pa.float64()})
    assert isinstance(kind.fields["tags"], ListOf)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert isinstance(kind_of_schema(schema), ObjectOf)
