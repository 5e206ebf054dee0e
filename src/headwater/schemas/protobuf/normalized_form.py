"""Order a schema's parts and write full type names, for `normalize=true`.

Schemas with the same meaning have the same normalized text: fields are ordered by number, options
and imports by name, and maps are written as maps. Messages keep their order, because their
positions are part of the wire format.
"""

from collections.abc import Iterable
from dataclasses import replace

from headwater.schemas.protobuf.canonical_form import canonical, printed_options
from headwater.schemas.protobuf.resolution import ProtobufSchema, joined
from headwater.schemas.protobuf.schema import (
    SCALARS,
    EnumType,
    Extend,
    Extensions,
    Field,
    FieldType,
    ListValue,
    MapType,
    MapValue,
    MessageType,
    NumberRange,
    Oneof,
    Option,
    ProtoFile,
    Reserved,
    Rpc,
    RpcService,
    Value,
)


def normalized(schema: ProtobufSchema) -> str:
    """The normalized text. Raises `InvalidSchema` for an unknown type."""
    return canonical(_Normalizer(schema).file())


class _Normalizer:
    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema

    def file(self) -> ProtoFile:
        file = self._schema.file
        return replace(
            file,
            syntax=file.syntax if file.is_proto3 else None,
            imports=tuple(sorted(set(file.imports))),
            public_imports=tuple(sorted(set(file.public_imports))),
            weak_imports=tuple(sorted(set(file.weak_imports))),
            options=_options(file.options),
            messages=self._messages(file.messages, file.package),
            enums=tuple(_enum(each) for each in file.enums),
            extends=self._extends(file.extends, file.package),
            services=tuple(self._service(each) for each in file.services),
        )

    def _messages(self, messages: Iterable[MessageType], scope: str) -> tuple[MessageType, ...]:
        return tuple(self._message(each, scope) for each in messages if not each.is_map_entry)

    def _message(self, message: MessageType, scope: str) -> MessageType:
        inside = joined(scope, message.name)
        oneofs = [self._oneof(each, inside) for each in message.oneofs if each.fields]
        return replace(
            message,
            reserved=_reserved(message.reserved),
            options=_options(message.options),
            fields=self._fields(message.fields, inside),
            oneofs=tuple(sorted(oneofs, key=lambda each: each.fields[0].number)),
            extensions=_extensions(message.extensions),
            extends=self._extends(message.extends, inside),
            messages=self._messages(message.messages, inside),
            enums=tuple(_enum(each) for each in message.enums),
        )

    def _oneof(self, oneof: Oneof, scope: str) -> Oneof:
        return replace(
            oneof, fields=self._fields(oneof.fields, scope), options=_options(oneof.options)
        )

    def _fields(self, fields: Iterable[Field], scope: str) -> tuple[Field, ...]:
        ordered = sorted(fields, key=lambda each: each.number)
        return tuple(self._field(each, scope) for each in ordered)

    def _field(self, field: Field, scope: str) -> Field:
        kind = field.type if field.is_group else self._type(field.type, scope)
        return replace(
            field,
            type=kind,
            label=None if isinstance(kind, MapType) else field.label,
            # Defaults and JSON names are ordered together with options.
            options=_options(printed_options(field)),
            default=None,
            json_name=None,
        )

    def _type(self, kind: FieldType, scope: str) -> FieldType:
        if isinstance(kind, MapType):
            return MapType(kind.key, self._name(kind.value, scope))
        if kind in SCALARS:
            return kind
        found = self._schema.resolve(kind, scope)
        if isinstance(found.element, MessageType) and found.element.is_map_entry:
            entry = map_type(found.element)
            if entry is not None:
                return MapType(entry.key, self._name(entry.value, found.full_name))
        return f".{found.full_name}"

    def _name(self, name: str, scope: str) -> str:
        return name if name in SCALARS else f".{self._schema.resolve(name, scope).full_name}"

    def _extends(self, extends: Iterable[Extend], scope: str) -> tuple[Extend, ...]:
        fields: dict[str, list[Field]] = {}
        groups: dict[str, list[MessageType]] = {}
        for each in extends:
            name = self._name(each.name, scope)
            fields.setdefault(name, []).extend(each.fields)
            groups.setdefault(name, []).extend(each.groups)
        return tuple(
            Extend(name, self._fields(found, scope), self._messages(groups[name], scope))
            for name, found in fields.items()
        )

    def _service(self, service: RpcService) -> RpcService:
        return replace(
            service,
            rpcs=tuple(self._rpc(each) for each in service.rpcs),
            options=_options(service.options),
        )

    def _rpc(self, rpc: Rpc) -> Rpc:
        package = self._schema.file.package
        return replace(
            rpc,
            request=self._name(rpc.request, package),
            response=self._name(rpc.response, package),
            options=_options(rpc.options),
        )


def map_type(entry: MessageType) -> MapType | None:
    """The map that a message for entries stands for."""
    types = {each.name: each.type for each in entry.fields}
    key, value = types.get("key"), types.get("value")
    return MapType(key, value) if isinstance(key, str) and isinstance(value, str) else None


def _enum(enum: EnumType) -> EnumType:
    # Zero first, also before negative numbers: in proto3 it must be.
    values = sorted(enum.values, key=lambda each: (each.number != 0, each.number, each.name))
    return replace(
        enum,
        reserved=_reserved(enum.reserved),
        options=_options(enum.options),
        values=tuple(replace(each, options=_options(each.options)) for each in values),
    )


def _reserved(reserved: Iterable[Reserved]) -> tuple[Reserved, ...]:
    """One statement for each range and name, ranges first."""
    values = [_single(each) for found in reserved for each in found.values]
    ranges = sorted((each for each in values if isinstance(each, NumberRange)), key=_first)
    names = sorted(each for each in values if isinstance(each, str))
    return (*(Reserved((each,)) for each in ranges), *(Reserved((each,)) for each in names))


def _extensions(extensions: Iterable[Extensions]) -> tuple[Extensions, ...]:
    found = [
        Extensions((_single_range(each),), _options(given.options))
        for given in extensions
        for each in given.ranges
    ]
    return tuple(sorted(found, key=lambda each: _first(each.ranges[0])))


def _first(numbers: NumberRange) -> int:
    return numbers.first


def _single(value: NumberRange | str) -> NumberRange | str:
    return value if isinstance(value, str) else _single_range(value)


def _single_range(numbers: NumberRange) -> NumberRange:
    return replace(numbers, is_single=numbers.first == numbers.last)


def _options(options: Iterable[Option]) -> tuple[Option, ...]:
    found = [Option(each.name, _value(each.value)) for each in options]
    return tuple(sorted(found, key=lambda each: ".".join(part.name for part in each.name)))


def _value(value: Value) -> Value:
    match value:
        case MapValue():
            entries = [(key, _value(each)) for key, each in value.entries if not _is_empty(each)]
            return MapValue(tuple(sorted(entries, key=lambda entry: entry[0])))
        case ListValue():
            if len(value.items) == 1:
                return _value(value.items[0])
            return ListValue(tuple(_value(each) for each in value.items))
        case _:
            return value


def _is_empty(value: Value) -> bool:
    return isinstance(value, ListValue) and not value.items
