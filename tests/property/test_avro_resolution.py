"""What our check calls compatible, fastavro really reads."""

import io
import json
from contextlib import suppress
from typing import Any

import fastavro
from fastavro.utils import generate_many
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from headwater.web.registry.avro_compatibility import unreadable
from headwater.web.registry.avro_schema import PRIMITIVES, parse
from headwater.web.registry.avro_text import canonical, normalized

Schema = Any

_primitives: st.SearchStrategy[Schema] = st.sampled_from(PRIMITIVES)
_symbols = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4, unique=True)


def _enums() -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda symbols, has_default: {
            "type": "enum",
            "name": "E",
            "symbols": symbols,
            **({"default": symbols[0]} if has_default else {}),
        },
        _symbols,
        st.booleans(),
    )


_fixed = st.builds(lambda size: {"type": "fixed", "name": "F", "size": size}, st.integers(1, 3))


def _field(name: str, kind: Schema, has_default: bool) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": kind}
    if has_default and kind in ("int", "long"):
        field["default"] = 1
    if has_default and isinstance(kind, list) and kind[:1] == ["null"]:
        field["default"] = None
    return field


def _records(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.sampled_from("abc")
    fields = st.builds(_field, names, inner, st.booleans())
    unique = st.lists(fields, max_size=3, unique_by=lambda field: field["name"])
    return unique.map(lambda fields: {"type": "record", "name": "R", "fields": fields})


def _containers(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.lists(inner, min_size=1, max_size=3),
        _records(inner),
    )


_schemas = st.recursive(_primitives | _enums() | _fixed, _containers, max_leaves=5)


@st.composite
def _edited(draw: st.DrawFn, schema: Schema) -> Schema:
    """A schema like another one: two random ones are seldom alike."""
    if draw(st.integers(0, 9)) == 0:
        return draw(_schemas)
    match schema:
        case str():
            return draw(
                st.sampled_from([schema, schema, "long", "double", "string", ["null", schema]])
            )
        case list():
            return [draw(_edited(each)) for each in draw(st.permutations(schema))]
        case {"type": "enum"}:
            return draw(_enums())
        case {"type": "array"}:
            return {**schema, "items": draw(_edited(schema["items"]))}
        case {"type": "map"}:
            return {**schema, "values": draw(_edited(schema["values"]))}
        case {"type": "record"}:
            return {**schema, "fields": draw(_edited_fields(schema["fields"]))}
        case _:
            return schema


@st.composite
def _edited_fields(draw: st.DrawFn, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for field in draw(st.permutations(fields)):
        name, kind = field["name"], draw(_edited(field["type"]))
        match draw(st.integers(0, 4)):
            case 0:
                continue
            case 1:
                # A name that nobody else has: where a writer has a field and also its alias,
                # implementations differ in which of them they read.
                kept.append({"name": name.upper(), "type": kind, "aliases": [name]})
            case _:
                kept.append({"name": name, "type": kind})
    added = {"name": "d", "type": "int", "default": 1}
    return [*kept, added] if draw(st.booleans()) else kept


@settings(max_examples=300, deadline=None)
@given(_schemas.flatmap(lambda schema: st.tuples(st.just(schema), _edited(schema))))
def test_what_is_called_compatible_is_read(pair: tuple[Schema, Schema]) -> None:
    writer, reader = pair
    parsed = [_parsed(each) for each in (reader, writer)]
    assume(all(each is not None for each in parsed))
    assume(not unreadable(reader=parsed[0].root, writer=parsed[1].root))
    event("the same" if reader == writer else "another one")
    written = fastavro.parse_schema(json.loads(json.dumps(writer)))
    wanted = fastavro.parse_schema(json.loads(json.dumps(reader)))
    for value in generate_many(written, 8):
        data = io.BytesIO()
        fastavro.schemaless_writer(data, written, value)
        data.seek(0)
        # Bytes may be read as a string by their schemas, but need not be one.
        with suppress(UnicodeDecodeError):
            fastavro.schemaless_reader(data, written, wanted)
            assert not data.read()


@settings(max_examples=200, deadline=None)
@given(_schemas)
def test_texts_are_stable_and_say_the_same_as_the_schema(schema: Schema) -> None:
    parsed = _parsed(schema)
    assume(parsed is not None)
    for write in (canonical, normalized):
        text = write(parsed)
        again = parse(text)
        assert write(again) == text
        assert not unreadable(reader=again.root, writer=parsed.root)
        assert not unreadable(reader=parsed.root, writer=again.root)


def _parsed(schema: Schema) -> Any:
    """None where a draw is no schema: a name defined twice, a branch twice."""
    from headwater.web.registry.refusals import Refusal

    try:
        return parse(json.dumps(schema))
    except Refusal:
        return None
