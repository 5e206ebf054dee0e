"""What our check calls compatible, fastavro really reads."""

import io
import json
from typing import Any

import fastavro
from fastavro.utils import generate_one
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


def _field(name: str, kind: Schema, has_default: bool, alias: str | None) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": kind}
    if has_default and kind in ("int", "long"):
        field["default"] = 1
    if has_default and isinstance(kind, list) and kind[:1] == ["null"]:
        field["default"] = None
    if alias is not None and alias != name:
        field["aliases"] = [alias]
    return field


def _records(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.sampled_from("abc")
    fields = st.builds(_field, names, inner, st.booleans(), st.none() | names)
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


@settings(max_examples=300, deadline=None)
@given(_schemas, _schemas, st.integers(0, 10))
def test_what_is_called_compatible_is_read(writer: Schema, reader: Schema, index: int) -> None:
    if index > 6:
        # Two random schemas are seldom alike; an own one always is.
        reader = writer
    parsed = [_parsed(each) for each in (reader, writer)]
    assume(all(each is not None for each in parsed))
    assume(not unreadable(reader=parsed[0].root, writer=parsed[1].root))
    event("the same" if reader == writer else "another one")
    written = fastavro.parse_schema(json.loads(json.dumps(writer)))
    value = generate_one(written)
    data = io.BytesIO()
    fastavro.schemaless_writer(data, written, value)
    data.seek(0)
    fastavro.schemaless_reader(data, written, fastavro.parse_schema(reader))
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
