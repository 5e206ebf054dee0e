"""Parsing of JSON Schemas: invalid schemas, `$ref` resolution, canonical texts."""

import json
from typing import Any

import pytest

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema.canonical_form import canonical, normalized
from headwater.schemas.json_schema.compatibility import narrowed
from headwater.schemas.json_schema.parser import parse_json, read_tree
from headwater.schemas.json_schema.schema import Target

MODERN = "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}


def tree(schema: Any, **others: Any) -> Target:
    read = {name: parse_json(json.dumps(each)) for name, each in others.items()}
    return read_tree(parse_json(json.dumps(schema)), read)


def is_same(one: Target, other: Target) -> bool:
    return not narrowed(old=one, new=other) and not narrowed(old=other, new=one)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ([], "#"),
        ("string", "#"),
        ({"type": "strin"}, "#/type"),
        ({"type": ["string", 3]}, "#/type"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": 3}}, "#/properties/a"),
        ({"type": "object", "required": "a"}, "#/required"),
        ({"items": 3}, "#/items"),
        ({"items": [3]}, "#/items/0"),
        ({"$schema": MODERN, "items": [{}]}, "#/items"),
        ({"minLength": "3"}, "#/minLength"),
        ({"minLength": -1}, "#/minLength"),
        ({"maxItems": 1.5}, "#/maxItems"),
        ({"maximum": True}, "#/maximum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"uniqueItems": 1}, "#/uniqueItems"),
        ({"pattern": 1}, "#/pattern"),
        ({"enum": []}, "#/enum"),
        ({"anyOf": {}}, "#/anyOf"),
        ({"not": None}, "#/not"),
        ({"if": 1, "then": {}}, "#/if"),
        ({"dependencies": {"a": 1}}, "#/dependencies/a"),
        ({"$schema": MODERN, "dependentRequired": {"a": "b"}}, "#/dependentRequired"),
        ({"$ref": 3}, "#/$ref"),
        ({"$ref": "#/definitions/none"}, "#/$ref"),
        ({"$ref": "#none"}, "#/$ref"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "#/properties/a/$ref"),
        ({"$ref": "https://example.com/tea.json"}, "#/$ref"),
        ({"$ref": "http://[bad"}, "#/$ref"),
        ({"$ref": "#"}, "#"),
        ({"$id": "http://[bad"}, "#"),
        ({"properties": {"a": {"$id": "http://[bad"}}}, "#"),
    ],
)
def test_invalid_schema_is_rejected_with_its_path(schema: Any, place: str) -> None:
    with pytest.raises(InvalidSchema) as told:
        tree(schema)
    assert f"Invalid schema of type JSON, details: at {place}:" in str(told.value)


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"minimum": Infinity}', "[" * 100_000])
def test_text_that_is_not_json_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSchema, match="not JSON"):
        parse_json(text)


def test_deeply_nested_schema_is_rejected() -> None:
    schema: Any = TEXT
    for _ in range(150):
        schema = {"items": schema}
    with pytest.raises(InvalidSchema, match="100 levels deep"):
        tree(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/definitions/t", "definitions": {"t": TEXT}},
        {"$ref": "#/$defs/t", "definitions": {"t": TEXT}},
        {"$ref": "#/definitions/a~1b%25", "definitions": {"a/b%": TEXT}},
        {"$ref": "#/anyOf/0", "anyOf": [TEXT]},
        {"$ref": "#t", "definitions": {"x": {"$id": "#t", **TEXT}}},
        {"$schema": MODERN, "$ref": "#t", "$defs": {"x": {"$anchor": "t", **TEXT}}},
        {"$schema": MODERN, "$dynamicRef": "#t", "$defs": {"x": {"$dynamicAnchor": "t", **TEXT}}},
        {
            "$id": "http://tea.shop/root.json",
            "$ref": "leaf.json#/definitions/t",
            "definitions": {"x": {"$id": "leaf.json", "definitions": {"t": TEXT}}},
        },
        {
            "$ref": "#/definitions/one",
            "definitions": {"one": {"$ref": "#/definitions/two"}, "two": TEXT},
        },
        {"$ref": "#/definitions/t", "type": "integer", "definitions": {"t": TEXT}},
    ],
)
def test_ref_into_the_schema_itself_is_resolved(schema: Any) -> None:
    assert is_same(tree(schema), tree(TEXT))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "leaf.json"},
        {"$ref": "./leaf.json"},
        {"$id": "http://tea.shop/root.json", "$ref": "leaf.json"},
        {"$id": "http://tea.shop/root.json", "$ref": "http://tea.shop/leaf.json"},
        {"$ref": "http://tea.shop/own-id.json"},
        {"$schema": MODERN, "$ref": "leaf.json"},
    ],
)
def test_ref_to_a_reference_is_resolved(schema: Any) -> None:
    leaf = {
        "$id": "http://tea.shop/own-id.json",
        "$ref": "#/definitions/t",
        "definitions": {"t": TEXT},
    }
    assert is_same(tree(schema, **{"leaf.json": leaf}), tree(TEXT))


def test_documents_that_refer_to_each_other_are_parsed() -> None:
    one = {"properties": {"other": {"$ref": "two.json"}, "v": TEXT}}
    two = {"properties": {"other": {"$ref": "one.json"}}}
    narrower = {"properties": {"other": {"$ref": "one.json"}, "v": {"type": "integer"}}}
    others = {"one.json": one, "two.json": two}
    assert is_same(tree(one, **others), tree(one, **others))
    assert not is_same(tree(one, **others), tree(one, **{**others, "two.json": narrower}))


def test_id_in_data_is_ignored() -> None:
    data = {
        "enum": [{"$id": "leaf.json", "type": "string"}],
        "properties": {"a": {"$ref": "leaf.json"}},
    }
    with pytest.raises(InvalidSchema, match="is not found"):
        tree(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "type" : "string",\n "a" : [1, true, null] }', '{"type":"string","a":[1,true,null]}'),
        ('{"b": 1, "a": 2}', '{"b":1,"a":2}'),
        ('{"a": 1.10, "b": 1e5, "c": -0.0, "d": 12345678901234567890.5, "e": 1E-9}',
         '{"a":1.10,"b":1E+5,"c":0.0,"d":12345678901234567890.5,"e":1E-9}'),
        ('{"a": "\\u00e4\\n\\/\\""}', '{"a":"ä\\n/\\""}'),
        ('{"a": 1, "b": 2, "a": 3}', '{"a":3,"b":2}'),
        ("true", "true"),
    ],
)  # fmt: skip
def test_text_is_the_one_that_confluents_registry_writes(text: str, expected: str) -> None:
    assert canonical(parse_json(text)) == expected


def test_normalized_text_sorts_keys_but_not_lists() -> None:
    text = (
        '{"type": "object", "required": ["b", "a"], "properties": {"b": {}, "a": {"z": 1, "y": 2}}}'
    )
    expected = '{"properties":{"a":{"y":2,"z":1},"b":{}},"required":["b","a"],"type":"object"}'
    assert normalized(parse_json(text)) == expected
