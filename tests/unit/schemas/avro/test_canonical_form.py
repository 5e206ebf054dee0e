"""Canonical texts of Avro schemas, and invalid schemas."""

import json
from typing import Any

import pytest

from headwater.schemas.avro.canonical_form import canonical, normalized
from headwater.schemas.avro.schema import parse
from headwater.schemas.errors import InvalidSchema


def test_whitespace_and_the_order_of_keys_do_not_matter() -> None:
    one = '{"type":"record","name":"Tea","namespace":"shop","fields":[{"name":"a","type":"int"}]}'
    other = """{ "fields": [ {"type": {"type": "int"}, "name": "a"} ],
        "name": "shop.Tea", "type": "record" }"""
    assert canonical(parse(other)) == canonical(parse(one)) == one


def test_text_is_the_one_that_avros_java_library_prints() -> None:
    """Literal texts: a registry that takes over a topic finds ids by them."""
    given = {
        "name": "shop.Tea",
        "doc": "What we sell.",
        "aliases": ["Leaf", "other.Leaf"],
        "type": "record",
        "owner": "tea-team",
        "fields": [
            {"name": "id", "type": {"type": "string", "avro.java.string": "String"}},
            {"default": None, "name": "next", "type": ["null", "Tea"], "doc": "d"},
            {"name": "kind", "order": "ignore", "type": {"type": "enum", "name": "Kind",
             "symbols": ["GREEN", "BLACK"], "default": "GREEN"}, "aliases": ["sort"]},
            {"name": "hash", "type": {"type": "fixed", "name": "lib.Hash", "size": 16}},
            {"name": "more", "type": {"type": "map", "values": "lib.Hash"}},
            {"name": "again", "type": {"type": "array", "items": "shop.Kind"}},
            {"name": "price", "type": {"scale": 2, "type": "bytes", "precision": 9,
             "logicalType": "decimal"}},
        ],
    }  # fmt: skip
    assert canonical(parse(json.dumps(given))) == (
        '{"type":"record","name":"Tea","namespace":"shop","doc":"What we sell.","fields":['
        '{"name":"id","type":{"type":"string","avro.java.string":"String"}},'
        '{"name":"next","type":["null","Tea"],"doc":"d","default":null},'
        '{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["GREEN","BLACK"],'
        '"default":"GREEN"},"order":"ignore","aliases":["sort"]},'
        '{"name":"hash","type":{"type":"fixed","name":"Hash","namespace":"lib","size":16}},'
        '{"name":"more","type":{"type":"map","values":"lib.Hash"}},'
        '{"name":"again","type":{"type":"array","items":"Kind"}},'
        '{"name":"price","type":{"type":"bytes","scale":2,"precision":9,"logicalType":"decimal"}}'
        '],"owner":"tea-team","aliases":["Leaf","other.Leaf"]}'
    )


def test_canonical_text_is_stable() -> None:
    text = '{"type":"record","name":"A","fields":[{"name":"n","type":["null","A"]}]}'
    assert canonical(parse(canonical(parse(text)))) == text


def test_normalized_text_ignores_the_order_of_properties() -> None:
    one = '{"type":"string","b":1,"a":2}'
    other = '{"type":"string","a":2,"b":1}'
    assert canonical(parse(one)) != canonical(parse(other))
    assert normalized(parse(one)) == normalized(parse(other))


def test_primitive_alone_is_a_schema() -> None:
    assert canonical(parse('{"type": "string"}')) == '"string"'


NO_SCHEMAS: list[Any] = [
    5,
    None,
    "tea",
    {},
    {"type": "tea"},
    {"type": "array"},
    {"type": "map"},
    {"type": "fixed", "name": "F"},
    {"type": "fixed", "name": "F", "size": -1},
    {"type": "enum", "name": "E"},
    {"type": "enum", "name": "E", "symbols": ["A", "A"]},
    {"type": "enum", "name": "E", "symbols": ["a b"]},
    {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
    {"type": "record", "name": "R"},
    {"type": "record", "fields": []},
    {"type": "record", "name": "1R", "fields": []},
    {"type": "record", "name": "int", "fields": []},
    {"type": "record", "name": "R", "fields": [{"name": "a"}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 2**31}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
    ["int", "int"],
    ["int", ["null"]],
    [{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}],
]


@pytest.mark.parametrize("given", NO_SCHEMAS, ids=lambda given: json.dumps(given)[:60])
def test_invalid_schema_is_rejected(given: Any) -> None:
    with pytest.raises(InvalidSchema):
        parse(json.dumps(given))


@pytest.mark.parametrize("text", ["", "tea", "{", "[" * 100_000, "NaN", '{"type":' * 5000])
def test_text_that_is_not_json_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text)
