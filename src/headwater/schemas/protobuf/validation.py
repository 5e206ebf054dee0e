"""Check what a parser does not: names, numbers and types of a schema's own file.

A schema that passes can be loaded by the Protobuf runtime. Imported files were checked when they
were registered.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from headwater.schemas.protobuf.descriptors import map_entry_name
from headwater.schemas.protobuf.resolution import (
    ProtobufSchema,
    joined,
    walk_extends,
    walk_messages,
)
from headwater.schemas.protobuf.schema import (
    MAX_TAG,
    SCALARS,
    EnumType,
    Field,
    Literal,
    MapType,
    MessageType,
    NumberRange,
    ProtoFile,
    Reserved,
)
from headwater.schemas.protobuf.tokens import invalid_protobuf

_RUNTIMES_OWN: Final = range(19_000, 20_000)
"""Field numbers that Protobuf keeps for itself."""
_MAP_KEYS: Final = SCALARS - {"bytes", "double", "float"}
_OPTIONS_PACKAGE: Final = "google.protobuf."


def validate(schema: ProtobufSchema) -> None:
    """Raises `InvalidSchema` with the first problem."""
    file = schema.file
    _check_symbols(file)
    for name, message in walk_messages(file):
        _check_message(schema, file, name, message)
    for scope, enum in _enums(file):
        _check_enum(file, joined(scope, enum.name), enum)
    for scope, extend in walk_extends(file):
        target = schema.resolve(extend.name, scope)
        if not isinstance(target.element, MessageType):
            raise invalid_protobuf(f"{extend.name} is not a message and cannot be extended")
        if file.is_proto3 and not target.full_name.startswith(_OPTIONS_PACKAGE):
            raise invalid_protobuf(f"proto3 extends options only, not {extend.name}")
        for field in extend.fields:
            _check_number(field, joined(scope, field.name))
            _check_type(schema, field, scope)
    for service in file.services:
        for rpc in service.rpcs:
            for name in (rpc.request, rpc.response):
                if not isinstance(schema.resolve(name, file.package).element, MessageType):
                    raise invalid_protobuf(f"{name} is not a message")


def _check_symbols(file: ProtoFile) -> None:
    """Check that names are unique; values of an enum share the scope of the enum."""
    seen: set[str] = set()
    for name in _symbols(file):
        if name in seen:
            raise invalid_protobuf(f"{name} is already defined")
        seen.add(name)


def _symbols(file: ProtoFile) -> Iterator[str]:
    for scope, message in walk_messages(file):
        yield scope
        for field, _ in message.all_fields():
            yield joined(scope, field.name)
            if isinstance(field.type, MapType):
                yield joined(scope, map_entry_name(field.name))
        for oneof in message.oneofs:
            yield joined(scope, oneof.name)
    for scope, enum in _enums(file):
        yield joined(scope, enum.name)
        for value in enum.values:
            yield joined(scope, value.name)
    for scope, extend in walk_extends(file):
        for field in extend.fields:
            yield joined(scope, field.name)
    for service in file.services:
        yield joined(file.package, service.name)
        for rpc in service.rpcs:
            yield joined(file.package, f"{service.name}.{rpc.name}")


def _enums(file: ProtoFile) -> Iterator[tuple[str, EnumType]]:
    for each in file.enums:
        yield file.package, each
    for scope, message in walk_messages(file):
        for each in message.enums:
            yield scope, each


def _check_message(
    schema: ProtobufSchema, file: ProtoFile, name: str, message: MessageType
) -> None:
    numbers: set[int] = set()
    taken = _Ranges(_ranges(message.reserved))
    extended = _Ranges(each for found in message.extensions for each in found.ranges)
    names = {each for found in message.reserved for each in found.values if isinstance(each, str)}
    if file.is_proto3 and message.extensions:
        raise invalid_protobuf(f"{name}: proto3 has no extension ranges")
    for oneof in message.oneofs:
        if not oneof.fields:
            raise invalid_protobuf(f"the oneof {joined(name, oneof.name)} has no fields")
    for field, _ in message.all_fields():
        full_name = joined(name, field.name)
        _check_number(field, full_name)
        if field.number in numbers:
            raise invalid_protobuf(f"{full_name}: the number {field.number} is already used")
        numbers.add(field.number)
        if field.number in taken or field.name in names:
            raise invalid_protobuf(f"{full_name} uses a reserved number or name")
        if field.number in extended:
            raise invalid_protobuf(f"{full_name} uses a number of an extension range")
        if file.is_proto3 and field.default is not None:
            raise invalid_protobuf(f"{full_name}: proto3 has no default values")
        if field.is_group and (file.is_proto3 or file.edition is not None):
            raise invalid_protobuf(f"{full_name}: groups are for proto2 only")
        _check_type(schema, field, name)


def _check_number(field: Field, full_name: str) -> None:
    if not 0 < field.number <= MAX_TAG or field.number in _RUNTIMES_OWN:
        raise invalid_protobuf(
            f"{full_name}: {field.number} is not a field number; they go from 1 to {MAX_TAG}, "
            "without 19000 to 19999"
        )


def _check_type(schema: ProtobufSchema, field: Field, scope: str) -> None:
    if isinstance(field.type, MapType):
        if field.type.key not in _MAP_KEYS:
            raise invalid_protobuf(f"the key of a map cannot be {field.type.key}")
        if field.type.value not in SCALARS:
            schema.resolve(field.type.value, scope)
    elif field.type not in SCALARS:
        found = schema.resolve(field.type, scope)
        if isinstance(found.element, EnumType) and field.default is not None:
            _check_enum_default(found.element, field.default, field.name)


def _check_enum_default(enum: EnumType, default: Literal, name: str) -> None:
    if default.text not in {each.name for each in enum.values}:
        raise invalid_protobuf(f"{name}: {enum.name} has no value {default.text}")


def _check_enum(file: ProtoFile, name: str, enum: EnumType) -> None:
    if not enum.values:
        raise invalid_protobuf(f"the enum {name} has no values")
    if file.is_proto3 and enum.values[0].number != 0:
        raise invalid_protobuf(f"the first value of {name} must be 0 in proto3")
    allows_alias = any(
        each.plain_name == "allow_alias"
        and isinstance(each.value, Literal)
        and each.value.text == "true"
        for each in enum.options
    )
    numbers: set[int] = set()
    taken = _Ranges(_ranges(enum.reserved))
    for value in enum.values:
        if value.number in numbers and not allows_alias:
            raise invalid_protobuf(
                f"{name}.{value.name}: the number {value.number} is already used; allow_alias "
                "permits it"
            )
        numbers.add(value.number)
        if value.number in taken:
            raise invalid_protobuf(f"{name}.{value.name} uses a reserved number")


def _ranges(reserved: tuple[Reserved, ...]) -> Iterator[NumberRange]:
    for each in reserved:
        for value in each.values:
            if isinstance(value, NumberRange):
                yield value


class _Ranges:
    """Sorted ranges, in which a number is found in few steps."""

    def __init__(self, given: Iterable[NumberRange]) -> None:
        self._ranges = sorted((each.first, each.last) for each in given)
        previous: int | None = None
        for first, last in self._ranges:
            if last < first:
                raise invalid_protobuf(f"the range {first} to {last} ends before it begins")
            if previous is not None and first <= previous:
                raise invalid_protobuf(f"the range {first} to {last} overlaps with another one")
            previous = last

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._ranges, (number, MAX_TAG * 8)) - 1
        return at >= 0 and self._ranges[at][0] <= number <= self._ranges[at][1]
