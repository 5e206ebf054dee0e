"""Random Avro schemas, and similar ones as created by editing."""

from typing import Any

from hypothesis import strategies as st

from headwater.schemas.avro.schema import PRIMITIVES

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


schemas = st.recursive(_primitives | _enums() | _fixed, _containers, max_leaves=5)


@st.composite
def edited(draw: st.DrawFn, schema: Schema) -> Schema:
    """Return a schema similar to another: two random ones are seldom alike."""
    if draw(st.integers(0, 9)) == 0:
        return draw(schemas)
    match schema:
        case str():
            return draw(
                st.sampled_from([schema, schema, "long", "double", "string", ["null", schema]])
            )
        case list():
            return [draw(edited(each)) for each in draw(st.permutations(schema))]
        case {"type": "enum"}:
            return draw(_enums())
        case {"type": "array"}:
            return {**schema, "items": draw(edited(schema["items"]))}
        case {"type": "map"}:
            return {**schema, "values": draw(edited(schema["values"]))}
        case {"type": "record"}:
            return {**schema, "fields": draw(_edited_fields(schema["fields"]))}
        case _:
            return schema


@st.composite
def _edited_fields(draw: st.DrawFn, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for field in draw(st.permutations(fields)):
        name, kind = field["name"], draw(edited(field["type"]))
        match draw(st.integers(0, 4)):
            case 0:
                continue
            case 1:
                # A unique name: if a writer has a field and also its alias, implementations differ
                # in which of them they read.
                kept.append({"name": name.upper(), "type": kind, "aliases": [name]})
            case _:
                kept.append({"name": name, "type": kind})
    added = {"name": "d", "type": "int", "default": 1}
    return [*kept, added] if draw(st.booleans()) else kept


_NAMES = ("A", "B", "C", "D")


@st.composite
def unions_of_records(draw: st.DrawFn) -> Schema:
    """Return a union of records that refer to each other, also in cycles, and have aliases."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    branches: list[Schema] = [_linked(draw, names, index) for index in range(len(names))]
    if draw(st.booleans()):
        branches.insert(draw(st.integers(0, len(branches))), draw(_primitives))
    return branches


def _linked(draw: st.DrawFn, names: list[str], index: int) -> Schema:
    kinds: list[Schema] = [*draw(st.lists(_primitives, min_size=1, max_size=2))]
    # Only records defined so far can be referenced: earlier ones, and itself.
    defined = names[: index + 1]
    kinds += [draw(st.sampled_from(defined)), ["null", draw(st.sampled_from(defined))]]
    kinds.append(["null", *draw(st.lists(st.sampled_from(defined), max_size=3, unique=True))])
    fields = [
        _field(name, draw(st.sampled_from(kinds)), draw(st.booleans()))
        for name in draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
    ]
    aliases = draw(st.lists(st.sampled_from(_NAMES), max_size=2, unique=True))
    return {"type": "record", "name": names[index], "aliases": aliases, "fields": fields}
