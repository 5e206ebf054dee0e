"""Wire layout of a message's fields in one version: formats, sizes, runs."""

from collections.abc import Iterator
from typing import Final

from headwater.protocol.schema import ProtocolField, wire_fields

# Fixed-size kinds with their `struct` format.
FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
}
_FIXED_BYTES: Final = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
_LEGACY_LENGTH_BYTES: Final = {"string": 2, "bytes": 4, "records": 4}


def is_fixed(field: ProtocolField) -> bool:
    return not field.repeated and field.kind in FIXED


def plain_fields(cls: type, version: int) -> list[ProtocolField]:
    """Return the untagged fields of a version, in order."""
    return [
        field
        for field in wire_fields(cls)
        if field.travels_in(version) and not field.is_tagged_in(version)
    ]


def tagged_fields(cls: type, version: int) -> list[ProtocolField]:
    """Return the tagged fields of a version, ordered by tag."""
    tagged = [
        field
        for field in wire_fields(cls)
        if field.travels_in(version) and field.is_tagged_in(version)
    ]
    return sorted(tagged, key=lambda field: field.tag or 0)


def runs(fields: list[ProtocolField]) -> Iterator[list[ProtocolField]]:
    """Group adjacent fixed-size fields; every other field is alone."""
    run: list[ProtocolField] = []
    for field in fields:
        if is_fixed(field):
            run.append(field)
            continue
        if run:
            yield run
            run = []
        yield [field]
    if run:
        yield run


def run_format(run: list[ProtocolField]) -> str:
    return ">" + "".join(FIXED[str(field.kind)] for field in run)


def least_bytes(kind: str | type, version: int, flexible: bool) -> int:
    """Return the minimum size of a value on the wire."""
    if not isinstance(kind, str):
        fields = plain_fields(kind, version)
        return sum(_least_field_bytes(field, version, flexible) for field in fields) + flexible
    if kind in FIXED:
        return _FIXED_BYTES[FIXED[kind]]
    return 1 if flexible else _LEGACY_LENGTH_BYTES[kind]


def _least_field_bytes(field: ProtocolField, version: int, flexible: bool) -> int:
    if field.repeated:
        return 1 if flexible else 4
    if not isinstance(field.kind, str) and field.is_nullable_in(version):
        return 1
    return least_bytes(field.kind, version, flexible)


def has_long_arrays(cls: type, version: int) -> bool:
    """Whether a struct has (also nested) an array that is not one `struct` call."""
    for field in (*plain_fields(cls, version), *tagged_fields(cls, version)):
        if field.repeated and field.kind not in FIXED:
            return True
        if isinstance(field.kind, type) and has_long_arrays(field.kind, version):
            return True
    return False
