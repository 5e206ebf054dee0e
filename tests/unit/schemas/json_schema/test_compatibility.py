"""Compatibility of JSON Schemas: Confluent's rules, and cases that Confluent's does not check."""

import json
from typing import Any

import pytest

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import compatibility, keywords, objects
from headwater.schemas.json_schema.compatibility import narrowed
from headwater.schemas.json_schema.objects import matches
from headwater.schemas.json_schema.parser import parse_json, read_tree
from headwater.schemas.json_schema.schema import Target

MODERN = "https://json-schema.org/draft/2020-12/schema"
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}


def tree(schema: Any) -> Target:
    return read_tree(parse_json(json.dumps(schema)), {})


def found(old: Any, new: Any) -> list[str]:
    return [f"{each.kind} {each.path}" for each in narrowed(old=tree(old), new=tree(new))]


def obj(properties: Any = None, *, closed: bool = False, **words: Any) -> dict[str, Any]:
    rest = {"additionalProperties": False} if closed else {}
    return {"type": "object", "properties": properties or {}, **rest, **words}


def arr(items: Any = None, **words: Any) -> dict[str, Any]:
    return {"type": "array", **({} if items is None else {"items": items}), **words}


def of(criterion: str, *parts: Any) -> dict[str, Any]:
    return {criterion: list(parts)}


def defined(root: Any, **definitions: Any) -> dict[str, Any]:
    return {**root, "definitions": definitions}


LET_PASS: dict[str, tuple[Any, Any]] = {
    "the same": (TEXT, TEXT),
    "anything becomes open": (TEXT, {}),
    "what nothing fits becomes something": (False, TEXT),
    "words that forbid nothing": ({**TEXT, "title": "a"}, {**TEXT, "format": "date", "$id": "b"}),
    # Strings and numbers.
    "longer texts": ({**TEXT, "maxLength": 3}, {**TEXT, "maxLength": 4}),
    "no limit to texts": ({**TEXT, "maxLength": 3, "minLength": 1, "pattern": "a"}, TEXT),
    "shorter texts": ({**TEXT, "minLength": 3}, {**TEXT, "minLength": 2}),
    "a wider range": ({**WHOLE, "minimum": 0, "maximum": 9}, {**WHOLE, "minimum": -1}),
    "an open end": ({**NUMBER, "exclusiveMaximum": 1}, {**NUMBER, "exclusiveMaximum": 1.5}),
    "integer becomes number": (WHOLE, NUMBER),
    "multiples of less": ({**WHOLE, "multipleOf": 4}, {**WHOLE, "multipleOf": 2}),
    "the same bound in other words": ({**NUMBER, "maximum": 1}, {**NUMBER, "maximum": 1.0}),
    "more values": ({"enum": ["a"]}, {"enum": ["b", "a"]}),
    "a value becomes several": ({"const": 1}, {"enum": [1.0, 2]}),
    "values of a type become the type": ({**TEXT, "enum": ["a"]}, TEXT),
    "another type more": (TEXT, {"type": ["string", "null"]}),
    "types become one that has them all": ({"type": ["integer", "number"]}, NUMBER),
    # Objects.
    "an optional property in a closed object": (
        obj({"a": TEXT}, closed=True),
        obj({"a": TEXT, "b": TEXT}, closed=True),
    ),
    "a required property with a default in a closed object": (
        obj(closed=True),
        obj({"a": {**TEXT, "default": ""}}, closed=True, required=["a"]),
    ),
    "a property gone from an open object": (obj({"a": TEXT}), obj()),
    "a property that may be anything in an open object": (obj(), obj({"a": True})),
    "a property that was forbidden gone from a closed object": (
        obj({"a": False}, closed=True),
        obj(closed=True),
    ),
    "a closed object opened": (obj(closed=True), obj()),
    "further properties may be more": (
        obj(additionalProperties=WHOLE),
        obj(additionalProperties=NUMBER),
    ),
    "a new property that further ones were": (
        obj(additionalProperties=WHOLE),
        obj({"a": NUMBER}, additionalProperties=WHOLE),
    ),
    "a property gone that further ones cover": (
        obj({"a": WHOLE}, additionalProperties=NUMBER),
        obj(additionalProperties=NUMBER),
    ),
    "a new property that a pattern promised": (
        obj(patternProperties={"^i_": WHOLE}, additionalProperties=False),
        obj({"i_a": NUMBER}, patternProperties={"^i_": WHOLE}, additionalProperties=False),
    ),
    "a property gone that a pattern covers": (
        obj({"i_a": WHOLE}, closed=True, patternProperties={"^i_": WHOLE}),
        obj(closed=True, patternProperties={"^i_": WHOLE}),
    ),
    "no longer required": (obj({"a": TEXT}, required=["a"]), obj({"a": TEXT})),
    "required with a default": (
        obj({"a": TEXT}),
        obj({"a": {**TEXT, "default": "x"}}, required=["a"]),
    ),
    "more and fewer properties": (obj(maxProperties=1, minProperties=1), obj(maxProperties=2)),
    "fewer dependencies": (obj(dependencies={"a": ["b", "c"]}), obj(dependencies={"a": ["b"]})),
    "a schema of names gone": (obj(propertyNames={"maxLength": 1}), obj()),
    "a pattern of a closed object that nothing matched": (
        obj({"a": TEXT}, closed=True),
        obj({"a": TEXT}, closed=True, patternProperties={"^x": WHOLE}),
    ),
    "a type said that was meant": ({"properties": {"a": TEXT}}, obj({"a": TEXT})),
    # Arrays.
    "items of any kind": (arr(TEXT), arr()),
    "wider items": (arr(WHOLE), arr(NUMBER)),
    "more items": (arr(maxItems=1, minItems=1, uniqueItems=True), arr(maxItems=2)),
    "one more place in a closed array": (
        arr([TEXT], additionalItems=False),
        arr([TEXT, WHOLE], additionalItems=False),
    ),
    "a place gone from an open array": (arr([TEXT, WHOLE]), arr([TEXT])),
    "a place that further items cover": (
        arr([TEXT, WHOLE], additionalItems=NUMBER),
        arr([TEXT], additionalItems=NUMBER),
    ),
    "places become one kind of items": (
        arr([WHOLE, WHOLE], additionalItems=False),
        arr(NUMBER),
    ),
    "what must be in it may be more": (arr(contains=WHOLE), arr(contains=NUMBER)),
    "additionalItems where items is no list says nothing": (
        arr(TEXT),
        arr(TEXT, additionalItems=False),
    ),
    # Combinations.
    "one more part of a union": (of("oneOf", TEXT), of("oneOf", WHOLE, TEXT)),
    "one type becomes a union": (TEXT, of("oneOf", TEXT, {"type": "null"})),
    "oneOf becomes anyOf": (of("oneOf", TEXT, WHOLE), of("anyOf", WHOLE, TEXT)),
    "parts may be wider": (of("anyOf", TEXT, WHOLE), of("anyOf", TEXT, NUMBER)),
    "a condition less": (of("allOf", {"maxLength": 3}, TEXT), of("allOf", TEXT)),
    "a part twice": (of("oneOf", TEXT, WHOLE), of("oneOf", TEXT, WHOLE, WHOLE)),
    "forbids less": ({"not": NUMBER}, {"not": WHOLE}),
    "the same condition, and less then": (
        {"if": obj({"a": {"const": 1}}), "then": obj(required=["b"])},
        {"if": obj({"a": {"enum": [1]}}), "then": obj()},
    ),
    # References.
    "moved into definitions": (
        obj({"a": TEXT}),
        defined(obj({"a": {"$ref": "#/definitions/t"}}), t=TEXT),
    ),
    "recursive, and wider inside": (
        defined({"$ref": "#/definitions/t"}, t=obj({"v": WHOLE, "t": {"$ref": "#/definitions/t"}})),
        defined({"$ref": "#/definitions/u"}, u=obj({"v": NUMBER, "t": {"$ref": "#"}})),
    ),
    "prefixItems are items of before": (
        arr([TEXT], additionalItems=False),
        {"$schema": MODERN, "type": "array", "prefixItems": [TEXT, TEXT], "items": False},
    ),
    "unevaluated properties opened": (
        {"$schema": MODERN, **obj({"a": TEXT}, unevaluatedProperties=False)},
        {"$schema": MODERN, **obj({"a": TEXT})},
    ),
    "a schema of schemas": (
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "http://json-schema.org/draft-07/schema"},
    ),
}

REFUSED: dict[str, tuple[Any, Any, list[str]]] = {
    "another type": (TEXT, WHOLE, ["TYPE_CHANGED #"]),
    "a type where there was none": ({}, TEXT, ["TYPE_CHANGED #"]),
    "nothing fits any more": (TEXT, False, ["TYPE_CHANGED #"]),
    "a type less": ({"type": ["string", "null"]}, TEXT, ["TYPE_CHANGED #"]),
    # Strings and numbers.
    "shorter texts": (
        {**TEXT, "maxLength": 3, "minLength": 1},
        {**TEXT, "maxLength": 2, "minLength": 2},
        ["MAX_LENGTH_DECREASED #/maxLength", "MIN_LENGTH_INCREASED #/minLength"],
    ),
    "limits to texts": (
        TEXT,
        {**TEXT, "maxLength": 3, "minLength": 1, "pattern": "a"},
        ["MAX_LENGTH_ADDED #/maxLength", "MIN_LENGTH_ADDED #/minLength", "PATTERN_ADDED #/pattern"],
    ),
    "another pattern": (
        {**TEXT, "pattern": "a"},
        {**TEXT, "pattern": "a|b"},
        ["PATTERN_CHANGED #/pattern"],
    ),
    "a narrower range": (
        {**NUMBER, "minimum": 1, "maximum": 5},
        {**NUMBER, "minimum": 1.5, "maximum": 4},
        ["MAXIMUM_DECREASED #/maximum", "MINIMUM_INCREASED #/minimum"],
    ),
    "ends closed": (
        {**NUMBER, "exclusiveMaximum": 5},
        {**NUMBER, "exclusiveMaximum": 4, "exclusiveMinimum": 0},
        [
            "EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum",
            "EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum",
        ],
    ),
    "an end closed in draft 4": (
        {"$schema": "http://json-schema.org/draft-04/schema#", **NUMBER, "maximum": 5},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            **NUMBER,
            "maximum": 5,
            "exclusiveMaximum": True,
        },
        ["EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"],
    ),
    "number becomes integer": (NUMBER, WHOLE, ["TYPE_NARROWED #"]),
    "multiples of more": (
        {**NUMBER, "multipleOf": 0.5},
        {**NUMBER, "multipleOf": 1.5},
        ["MULTIPLE_OF_EXPANDED #/multipleOf"],
    ),
    "multiples of another": (
        {**WHOLE, "multipleOf": 2},
        {**WHOLE, "multipleOf": 3},
        ["MULTIPLE_OF_CHANGED #/multipleOf"],
    ),
    "fewer values": ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    "other values": ({"enum": [1, True]}, {"enum": [1, 2]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    "a type becomes some of its values": (TEXT, {**TEXT, "enum": ["a"]}, ["TYPE_CHANGED #"]),
    # Objects.
    "a property in an open object": (
        obj(),
        obj({"a": TEXT}),
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    "a required property in an open object": (
        obj(),
        obj({"a": TEXT}, required=["a"]),
        ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    "a required property with a default in an open object": (
        obj(),
        obj({"a": {**TEXT, "default": ""}}, required=["a"]),
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    "a required property in a closed object": (
        obj(closed=True),
        obj({"a": TEXT}, closed=True, required=["a"]),
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    "a property gone from a closed object": (
        obj({"a": TEXT}, closed=True),
        obj(closed=True),
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    "a property gone that further ones do not cover": (
        obj({"a": TEXT}, additionalProperties=WHOLE),
        obj(additionalProperties=WHOLE),
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    "a new property that further ones were not": (
        obj(additionalProperties=NUMBER),
        obj({"a": WHOLE}, additionalProperties=NUMBER),
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    "an open object closed": (
        obj(),
        obj(closed=True),
        ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"],
    ),
    "further properties of one type": (
        obj(),
        obj(additionalProperties=TEXT),
        ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
    ),
    "further properties of another type": (
        obj(additionalProperties=TEXT),
        obj(additionalProperties=WHOLE),
        ["TYPE_CHANGED #/additionalProperties"],
    ),
    "required": (
        obj({"a": TEXT}),
        obj({"a": TEXT}, required=["a"]),
        ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    "required and not declared": (
        obj(),
        obj(required=["a"]),
        ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    "deep inside": (
        obj({"a": arr(obj({"b": TEXT}))}),
        obj({"a": arr(obj({"b": WHOLE}))}),
        ["TYPE_CHANGED #/properties/a/items/properties/b"],
    ),
    "more must be there": (
        obj(minProperties=1, dependencies={"a": ["b"], "c": ["d"], "e": {}}),
        obj(minProperties=2, dependencies={"a": ["b", "c"], "c": ["e"], "d": ["a"], "e": TEXT}),
        [
            "MIN_PROPERTIES_INCREASED #/minProperties",
            "DEPENDENCY_ARRAY_EXTENDED #/dependencies/a",
            "DEPENDENCY_ARRAY_CHANGED #/dependencies/c",
            "DEPENDENCY_ARRAY_ADDED #/dependencies/d",
            "TYPE_CHANGED #/dependencies/e",
        ],
    ),
    "a pattern in an open object": (
        obj(),
        obj(patternProperties={"^x": TEXT}),
        ["PATTERN_PROPERTY_ADDED #/patternProperties/^x"],
    ),
    "a pattern that a property does not fit": (
        obj({"x": WHOLE}, closed=True),
        obj({"x": WHOLE}, closed=True, patternProperties={"^x": TEXT}),
        ["PATTERN_PROPERTY_ADDED #/patternProperties/^x"],
    ),
    "a pattern gone from a closed object": (
        obj(closed=True, patternProperties={"^x": TEXT}),
        obj(closed=True),
        ["PATTERN_PROPERTY_REMOVED #/patternProperties/^x"],
    ),
    "what matches a pattern is of another type": (
        obj(patternProperties={"^x": TEXT}),
        obj(patternProperties={"^x": WHOLE}),
        ["TYPE_CHANGED #/patternProperties/^x"],
    ),
    "names that are limited": (
        obj(),
        obj(propertyNames={"maxLength": 3}),
        ["SCHEMA_ADDED #/propertyNames"],
    ),
    "a pattern that cannot be tried promises nothing": (
        obj(patternProperties={"^(a+)+$": TEXT}, additionalProperties=TEXT),
        obj({"aa": TEXT}, patternProperties={"^(a+)+$": TEXT}, additionalProperties=TEXT),
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/aa"],
    ),
    # Arrays.
    "items of one type": (arr(), arr(TEXT), ["SCHEMA_ADDED #/items"]),
    "items of another type": (arr(TEXT), arr(WHOLE), ["TYPE_CHANGED #/items"]),
    "a place in an open array": (
        arr([TEXT]),
        arr([TEXT, WHOLE]),
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    "a place gone from a closed array": (
        arr([TEXT, WHOLE], additionalItems=False),
        arr([TEXT], additionalItems=False),
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    "a place that further items do not cover": (
        arr([TEXT, TEXT], additionalItems=WHOLE),
        arr([TEXT], additionalItems=WHOLE),
        ["ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    "a place that further items were not": (
        arr([TEXT], additionalItems=NUMBER),
        arr([TEXT, WHOLE], additionalItems=NUMBER),
        ["ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    "no further items": (
        arr([TEXT]),
        arr([TEXT], additionalItems=False),
        ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
    ),
    "further items of one type": (
        arr([TEXT]),
        arr([TEXT], additionalItems=TEXT),
        ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    "fewer items, each once, one of a kind": (
        arr(maxItems=2),
        arr(maxItems=1, uniqueItems=True, contains=TEXT),
        [
            "MIN_CONTAINS_ADDED #/contains",
            "MAX_ITEMS_DECREASED #/maxItems",
            "UNIQUE_ITEMS_ADDED #/uniqueItems",
        ],
    ),
    "no more of a kind than before, and the kind is wider": (
        {"$schema": MODERN, **arr(contains=WHOLE, maxContains=2)},
        {"$schema": MODERN, **arr(contains=NUMBER, maxContains=2)},
        ["CONTAINS_EXTENDED #/contains"],
    ),
    # Combinations.
    "a part of a union less": (
        of("oneOf", TEXT, WHOLE),
        of("oneOf", TEXT, {"type": "null"}),
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #"],
    ),
    "fewer parts of a union": (
        of("anyOf", TEXT, WHOLE, {"type": "null"}),
        of("anyOf", TEXT, WHOLE),
        ["SUM_TYPE_NARROWED #"],
    ),
    "fewer parts of a union in other words": (
        of("oneOf", TEXT, WHOLE, {"type": "null"}),
        of("anyOf", TEXT, WHOLE),
        ["SUM_TYPE_NARROWED #"],
    ),
    "anyOf becomes oneOf": (
        of("anyOf", TEXT, WHOLE),
        of("oneOf", TEXT, WHOLE),
        ["COMBINED_TYPE_CHANGED #"],
    ),
    "a condition more": (
        of("allOf", TEXT, {"maxLength": 9}),
        of("allOf", TEXT, {"maxLength": 9}, {"minLength": 1}),
        ["PRODUCT_TYPE_EXTENDED #"],
    ),
    "what stands beside an enum": (
        {**obj({"a": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**obj({"a": WHOLE}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #"],
    ),
    "a type said beside other things": (
        {"properties": {"a": TEXT}, "not": {"type": "null"}},
        {**obj({"a": TEXT}), "not": {"type": "null"}},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #"],
    ),
    "forbids more": ({"not": WHOLE}, {"not": NUMBER}, ["NOT_TYPE_EXTENDED #/not"]),
    "another condition": (
        {"if": TEXT, "then": {"minLength": 1}},
        {"if": WHOLE, "then": {"minLength": 1}},
        ["CONDITION_CHANGED #/if"],
    ),
    "a condition that more values meet": (
        {"if": WHOLE, "then": {"minimum": 1}},
        {"if": NUMBER, "then": {"minimum": 1}},
        ["CONDITION_CHANGED #/if"],
    ),
    "more then": ({"if": TEXT, "then": {}}, {"if": TEXT, "then": False}, ["TYPE_CHANGED #/then"]),
    # References.
    "behind a reference": (
        defined(obj({"a": {"$ref": "#/definitions/t"}}), t=TEXT),
        defined(obj({"a": {"$ref": "#/definitions/t"}}), t=WHOLE),
        ["TYPE_CHANGED #/properties/a"],
    ),
    "recursive, and narrower inside": (
        defined(
            {"$ref": "#/definitions/t"}, t=obj({"v": NUMBER, "t": {"$ref": "#/definitions/t"}})
        ),
        defined({"$ref": "#/definitions/t"}, t=obj({"v": WHOLE, "t": {"$ref": "#/definitions/t"}})),
        ["TYPE_NARROWED #/properties/v"],
    ),
    "beside a reference, in 2020-12": (
        {"$schema": MODERN, "$ref": "#/$defs/t", "$defs": {"t": TEXT}},
        {"$schema": MODERN, "$ref": "#/$defs/t", "maxLength": 3, "$defs": {"t": TEXT}},
        ["MAX_LENGTH_ADDED #/maxLength"],
    ),
}


@pytest.mark.parametrize("name", LET_PASS)
def test_schema_that_accepts_all_old_values_is_compatible(name: str) -> None:
    assert found(*LET_PASS[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_incompatibility_is_reported_with_its_path(name: str) -> None:
    old, new, expected = REFUSED[name]
    assert found(old, new) == expected


@pytest.mark.parametrize("name", [*LET_PASS, *REFUSED])
def test_every_schema_is_compatible_with_itself(name: str) -> None:
    for schema in (LET_PASS.get(name) or REFUSED[name])[:2]:
        assert found(schema, schema) == []


def test_incompatible_part_is_reported_with_the_reason() -> None:
    old, new, _ = REFUSED["what stands beside an enum"]
    [complaint] = narrowed(old=tree(old), new=tree(new))
    assert "object is narrower: TYPE_CHANGED at #/properties/a" in complaint.reason


def test_assumptions_of_a_failed_branch_are_dropped() -> None:
    node = obj({"next": of("anyOf", {"$ref": "#/definitions/n"}, {"type": "null"}), "v": WHOLE})
    narrower = obj({"next": of("anyOf", {"$ref": "#/definitions/n"}, {"type": "null"}), "v": TEXT})
    old = defined(of("oneOf", {"$ref": "#/definitions/n"}, TEXT), n=node)
    new = defined(of("oneOf", {"$ref": "#/definitions/n"}, TEXT), n=narrower)
    assert found(old, new) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #"]
    # Comparing `m` inside `n` assumes that `n` is compatible; alone, it is not.
    chain = obj({"next": {"$ref": "#/definitions/n"}})
    ends = obj({"next": {"$ref": "#/definitions/m"}, "v": WHOLE})
    narrow = obj({"next": {"$ref": "#/definitions/m"}, "v": TEXT})
    refer = {"$ref": "#/definitions/n"}
    old = defined(obj({"a": refer, "b": {"$ref": "#/definitions/m"}}), n=ends, m=chain)
    wide = of("anyOf", refer, {"type": "object"})
    new = defined(obj({"a": wide, "b": {"$ref": "#/definitions/m"}}), n=narrow, m=chain)
    assert found(old, new) == ["TYPE_CHANGED #/properties/b/properties/next/properties/v"]


def test_definitions_that_refer_to_each_other_are_compared_once() -> None:
    names = [f"d{index}" for index in range(25)]
    every = of("oneOf", *({"$ref": f"#/definitions/{name}"} for name in names))
    graph = defined(every, **{name: obj({name: TEXT, "next": every}) for name in names})
    last = {**graph["definitions"], "d24": obj({"d24": WHOLE, "next": every})}
    assert found(graph, graph) == []
    assert found(graph, {**every, "definitions": last}) != []


def test_schemas_with_too_many_parts_are_rejected() -> None:
    old = of("oneOf", *({"const": index} for index in range(600)))
    new = of("oneOf", *({"const": -index - 1} for index in range(600)))
    with pytest.raises(InvalidSchema, match="too many pairs of parts"):
        found(old, new)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "a?" * 40 + "a" * 40])
def test_expensive_pattern_is_not_evaluated(pattern: str) -> None:
    assert matches(pattern, "a" * 60) is None
    hostile = obj({"a" * 60: TEXT}, patternProperties={pattern: TEXT}, additionalProperties=False)
    assert found(hostile, obj(patternProperties={pattern: TEXT}, additionalProperties=False)) != []
    assert found(hostile, hostile) == []


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("^i_", "i_a", True),
        ("^i_", "a", False),
        ("b$", "ab", True),
        (r"^[a-z*+?{|]+\.x?$", "a.", True),
        ("^(?:a|b)c", "bc", True),
        (r"^\p{L}", "a", None),
        ("a" * 300, "a", None),
        ("a", "a" * 300, None),
    ],
)
def test_cheap_patterns_are_evaluated(pattern: str, name: str, is_match: bool | None) -> None:
    assert matches(pattern, name) is is_match


class Counted(str):
    """A string that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("keyword", ["enum", "required", "dependentRequired"])
def test_cost_of_long_lists_of_names_is_linear(
    keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def schema() -> Target:
        names = [Counted(f"a{each}") for each in range(2_000)]
        return read_tree({keyword: {"b": names} if keyword == "dependentRequired" else names}, {})

    # Enum values are compared by their texts, which are written here.
    monkeypatch.setattr(keywords, "value_text", Counted)
    old, new = schema(), schema()
    Counted.compared = 0
    assert narrowed(old=old, new=new) == []
    assert Counted.compared < 20_000


def test_objects_with_very_many_patterns_are_not_matched() -> None:
    patterns = {f"^p{each}$": {"type": "string"} for each in range(300)}
    closed = {"additionalProperties": False, "patternProperties": patterns}
    names = {f"n{each}": {"type": "string"} for each in range(300)}
    tried: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "matches", lambda pattern, _: tried.append(pattern))
        found(closed, {**closed, "properties": names})
    assert tried == []


def test_comparisons_with_too_many_steps_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "STEPS_MAX", 1_000)
    small = {"enum": [f"a{each}" for each in range(400)]}
    large = {"enum": [f"a{each}" for each in range(600)]}
    assert found(small, {"enum": [*small["enum"], "b"]}) == []
    with pytest.raises(InvalidSchema, match="too many pairs of parts to compare"):
        found(large, {"enum": [*large["enum"], "b"]})


def test_long_chain_of_references_is_resolved() -> None:
    links = {f"d{each}": {"$ref": f"#/$defs/d{each + 1}"} for each in range(3_000)}
    definitions = {**links, "d3000": {"type": "integer"}}
    chain = {"$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    assert found(chain, {"properties": {"a": {"type": "number"}}}) == []
