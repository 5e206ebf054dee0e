"""Random JSON Schemas, similar ones as created by editing, and values for them.

Left out is what the rules accept although it can break a reader, as docs/guides/schema-registry.md
says: no defaults, a type beside every keyword that applies to one, `oneOf` only with disjoint
parts.
"""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

Schema = Any
Value = Any

NAMES = ("a", "b", "ab", "c")
PATTERNS = ("^a", "b$", "^x", "^(a|b)+$")
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_few = st.integers(0, 3)

_texts = st.sampled_from(["", "a", "b", "ab", "abc", "xyz"])
_numbers: st.SearchStrategy[Any] = st.integers(-4, 8) | st.sampled_from([0.5, 1.5, 2.0, -0.5])
_scalars: st.SearchStrategy[Value] = st.none() | st.booleans() | _numbers | _texts
values: st.SearchStrategy[Value] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def _typed(kind: str, words: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Schema]:
    return words.map(lambda found: {"type": kind, **found})


_bounds = _some(
    minimum=_numbers,
    maximum=_numbers,
    exclusiveMinimum=_numbers,
    exclusiveMaximum=_numbers,
    multipleOf=st.sampled_from([1, 2, 4, 0.5, 1.5]),
)
_leaves: st.SearchStrategy[Schema] = st.one_of(
    _typed("string", _some(minLength=_few, maxLength=_few, pattern=st.sampled_from(["^a", "b$"]))),
    _typed("integer", _bounds),
    _typed("number", _bounds),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, True, {}, False]),
    st.lists(_scalars, min_size=1, max_size=3).map(lambda found: {"enum": found}),
    _scalars.map(lambda found: {"const": found}),
    st.sampled_from([{"$ref": "#/definitions/one"}, {"$ref": "#/definitions/two"}]),
    st.lists(st.sampled_from(_TYPES), min_size=1, max_size=3, unique=True).map(
        lambda found: {"type": found}
    ),
)


def _objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.sampled_from(NAMES)
    return _typed(
        "object",
        _some(
            properties=st.dictionaries(names, inner, max_size=3),
            required=st.lists(names, max_size=2, unique=True),
            patternProperties=st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
            additionalProperties=inner,
            propertyNames=st.sampled_from([{"type": "string", "maxLength": 1}, {"enum": ["a"]}]),
            minProperties=_few,
            maxProperties=_few,
            dependencies=st.dictionaries(names, st.lists(names, max_size=2, unique=True) | inner),
        ),
    )


def _without_idle_words(array: Schema) -> Schema:
    """Remove `additionalItems` without an `items` list, as the validator fails on it."""
    if not isinstance(array.get("items"), list):
        array.pop("additionalItems", None)
    return array


def _arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return _typed(
        "array",
        _some(
            items=inner | st.lists(inner, max_size=2),
            additionalItems=inner,
            contains=inner,
            minItems=_few,
            maxItems=_few,
            uniqueItems=st.booleans(),
        ),
    ).map(_without_idle_words)


_disjoint: st.SearchStrategy[Schema] = st.lists(
    st.sampled_from(["string", "integer", "boolean", "null", "array", "object"]),
    min_size=1,
    max_size=3,
    unique=True,
).map(lambda kinds: {"oneOf": [{"type": kind} for kind in kinds]})


def _containers(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _objects(inner),
        _objects(inner),
        _arrays(inner),
        several.map(lambda found: {"anyOf": found}),
        several.map(lambda found: {"allOf": found}),
        inner.map(lambda found: {"not": found}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        st.builds(lambda one, more: {**one, "anyOf": more}, _objects(inner), several),
        st.builds(lambda kind, words: {**kind, "enum": words}, _objects(inner), st.just([1, {}])),
        _disjoint,
    )


_schemas: st.SearchStrategy[Schema] = st.recursive(_leaves, _containers, max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> Schema:
    """Return a schema that may refer to two others, and those to each other."""
    root = draw(_schemas)
    if not isinstance(root, dict) or "$ref" in root:
        root = {"allOf": [root]}
    return {**root, "definitions": {"one": draw(_closed_schemas), "two": draw(_objects_of_refs)}}


_closed_schemas: st.SearchStrategy[Schema] = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": [1, "a"]}, {"type": "object"}]
)
_objects_of_refs: st.SearchStrategy[Schema] = _typed(
    "object",
    _some(
        properties=st.dictionaries(
            st.sampled_from(NAMES),
            st.sampled_from([{"$ref": "#/definitions/two"}, {"$ref": "#/definitions/one"}]),
            max_size=2,
        ),
        additionalProperties=st.booleans(),
    ),
)


@st.composite
def edited(draw: st.DrawFn, schema: Schema) -> Schema:
    """Return the schema after one or two random edits."""
    changed = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(list(_places(changed))))
        defined = [id(each) for each in _places({"definitions": changed["definitions"]})]
        # A definition that is itself or something else is not supported by the reference validator.
        _edit(draw, place, may_join=id(place) not in defined and place is not changed)
    return changed


def _places(schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield every schema that is an object, the outermost one first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, inner in schema.items():
        if key in ("properties", "patternProperties", "definitions"):
            parts = list(inner.values())
        elif key in ("anyOf", "allOf", "items", "additionalProperties", "additionalItems"):
            parts = inner if isinstance(inner, list) else [inner]
        else:
            parts = [inner] if key in ("contains", "not", "then", "else") else []
        for each in parts:
            yield from _places(each)


def _edit(draw: st.DrawFn, place: dict[str, Any], *, may_join: bool) -> None:
    """Edit one schema in place; more often to make it less restrictive."""
    loose = [
        key for key in place if key not in ("type", "$ref", "definitions", "if", "then", "else")
    ]
    match draw(st.sampled_from(["drop", "drop", "turn", "turn", "more", "join", "name", "close"])):
        case "drop" if len(loose) > 1 or (loose and "type" in place):
            del place[draw(st.sampled_from(loose))]
        case "turn":
            for key in loose:
                place[key] = draw(_turned(key, place[key]))
        case "more" if may_join and "anyOf" in place:
            place["anyOf"] = [*place["anyOf"], draw(_leaves)]
        case "join" if may_join:
            inner = dict(place)
            place.clear()
            place["anyOf"] = [inner, draw(_leaves)]
        case "name" if place.get("type") == "object":
            name = draw(st.sampled_from(NAMES))
            place["properties"] = {**place.get("properties", {}), name: draw(_leaves)}
        case "close" if place.get("type") == "object":
            place["additionalProperties"] = draw(st.booleans() | _leaves)
        case _:
            pass


def _turned(key: str, inner: Any) -> st.SearchStrategy[Any]:
    if key == "required":
        return st.just(inner) | st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
    if key == "enum":
        return st.just(inner) | _scalars.map(lambda more: [*inner, more])
    if key == "oneOf":
        return _disjoint.map(lambda found: found["oneOf"])
    if isinstance(inner, int) and not isinstance(inner, bool):
        return st.sampled_from([inner, max(inner - 1, 1), max(inner, 1) + 1])
    return st.just(inner)


def modern(schema: Schema) -> Schema:
    """Return the schema in draft 2020-12, where `$ref` stands alone."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_modern(schema)}


def _modern(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_modern(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    words = {
        key: each if key in ("enum", "const") else _modern(each) for key, each in schema.items()
    }
    if isinstance(schema.get("items"), list) and schema.get("type") == "array":
        words["prefixItems"] = words.pop("items") or [True]
        if "additionalItems" in words:
            words["items"] = words["additionalItems"]
    words.pop("additionalItems", None)
    dependencies = words.pop("dependencies", {})
    needed = {name: each for name, each in dependencies.items() if isinstance(each, list)}
    others = {name: each for name, each in dependencies.items() if name not in needed}
    if dependencies:
        words |= {"dependentRequired": needed, "dependentSchemas": others}
    return words


@st.composite
def likely(draw: st.DrawFn, schema: Schema, root: Schema, depth: int = 0) -> Value:
    """Return a value that is likely to be valid."""
    if not isinstance(schema, dict) or depth > 4 or draw(st.integers(0, 9)) == 0:
        return draw(values)

    def inside(inner: Schema) -> Value:
        return draw(likely(inner, root, depth + 1))

    match schema:
        case {"$ref": str() as reference}:
            return inside(root["definitions"][reference.rsplit("/", 1)[1]])
        case {"enum": list() as found}:
            return draw(st.sampled_from(found))
        case {"const": found}:
            return found
        case {"type": "object"}:
            return _likely_object(draw, schema, inside)
        case {"type": "array"}:
            return _likely_array(draw, schema, inside)
        case {"anyOf": list() as parts} | {"allOf": list() as parts} | {"oneOf": list() as parts}:
            return inside(draw(st.sampled_from(parts)))
        case {"if": condition, "then": then, "else": on_error}:
            return inside(draw(st.sampled_from([condition, then, on_error])))
        case {"type": "string"}:
            return draw(_texts)
        case {"type": "integer" | "number"}:
            return draw(_numbers)
        case _:
            return draw(values)


def _likely_object(draw: st.DrawFn, schema: Schema, inside: Callable[[Schema], Value]) -> Value:
    named = schema.get("properties", {})
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    found = {}
    for name in dict.fromkeys([*schema.get("required", []), *names]):
        patterns = schema.get("patternProperties", {})
        matching = [each for pattern, each in patterns.items() if re.search(pattern, name)]
        further = schema.get("additionalProperties", True)
        found[name] = inside(named.get(name, [*matching, further][0]))
    return found


def _likely_array(draw: st.DrawFn, schema: Schema, inside: Callable[[Schema], Value]) -> Value:
    items = schema.get("items", True)
    places = items if isinstance(items, list) else []
    rest = schema.get("additionalItems", True) if isinstance(items, list) else items
    count = draw(_few)
    return [inside(places[index] if index < len(places) else rest) for index in range(count)]
