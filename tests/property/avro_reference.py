"""Reference implementation of Avro's schema resolution, to check the registry's fast one.

It tries every branch of a union and remembers only the pairs in progress, so it takes exponential
time and is simple enough to be obviously right.
"""

from headwater.schemas.avro.schema import (
    Array,
    Avro,
    Enum,
    Fixed,
    MapOf,
    Named,
    Primitive,
    Record,
    Union,
)

_PROMOTED = {
    *(("int", kind) for kind in ("long", "float", "double")),
    *(("long", kind) for kind in ("float", "double")),
    ("float", "double"),
    ("bytes", "string"),
    ("string", "bytes"),
}

Pair = tuple[int, int]


def reads(reader: Avro, writer: Avro, within: frozenset[Pair] = frozenset()) -> bool:
    """Return whether a reader can read everything that a writer may write."""
    pair = (id(reader), id(writer))
    if pair in within:
        return True
    inside = within | {pair}
    match reader, writer:
        case _, Union():
            return all(reads(reader, branch, inside) for branch in writer.branches)
        case Union(), _:
            return any(reads(branch, writer, inside) for branch in reader.branches)
        case Primitive(), Primitive():
            return reader.kind == writer.kind or (writer.kind, reader.kind) in _PROMOTED
        case Array(), Array():
            return reads(reader.items, writer.items, inside)
        case MapOf(), MapOf():
            return reads(reader.values, writer.values, inside)
        case Fixed(), Fixed():
            return _is_named(reader, writer) and reader.size == writer.size
        case Enum(), Enum():
            known = set(writer.symbols) <= set(reader.symbols) or reader.default is not None
            return _is_named(reader, writer) and known
        case Record(), Record():
            return _is_named(reader, writer) and _reads_fields(reader, writer, inside)
        case _:
            return False


def _is_named(reader: Named, writer: Named) -> bool:
    return writer.name == reader.name or writer.name in reader.aliases


def _reads_fields(reader: Record, writer: Record, within: frozenset[Pair]) -> bool:
    for field in reader.fields:
        names = (field.name, *field.aliases)
        written = next(
            (each for name in names for each in writer.fields if each.name == name), None
        )
        if written is None and not field.has_default:
            return False
        if written is not None and not reads(field.type, written.type, within):
            return False
    return True
