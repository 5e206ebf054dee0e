"""Build FileDescriptorProto messages, from which the runtime makes classes.

Type names are absolute in them, maps are repeated fields with a nested message, and an `optional`
field of proto3 is in a oneof of its own. Nested messages of maps come after all others: positions
of messages are part of the wire format and must be those of the text. Custom options are dropped.
"""

import base64
from typing import Any, Final

from headwater.schemas.protobuf.resolution import MAIN, Definition, ProtobufSchema, joined
from headwater.schemas.protobuf.runtime import descriptor_messages
from headwater.schemas.protobuf.schema import (
    SCALARS,
    EnumType,
    Field,
    ListValue,
    Literal,
    LiteralKind,
    MapType,
    MapValue,
    MessageType,
    NumberRange,
    Oneof,
    Option,
    ProtoFile,
    Reserved,
    RpcService,
    Value,
)
from headwater.schemas.protobuf.well_known import runtime_file

_EDITION_2023: Final = 1000
_LABELS: Final = {None: 1, "optional": 1, "required": 2, "repeated": 3}
_BYTE_MAX: Final = 0xFF


def file_descriptors(schema: ProtobufSchema, main_name: str) -> list[Any]:
    """The descriptors of all files, dependencies first; the schema's own is last."""
    return [
        file_descriptor(schema, name, main_name if name == MAIN else name) for name in schema.files
    ]


def serialized(schema: ProtobufSchema, main_name: str = "default") -> str:
    """The schema's own file in base64, as `?format=serialized` returns it."""
    raw: bytes = file_descriptor(schema, MAIN, main_name).SerializeToString()
    return base64.b64encode(raw).decode()


def file_descriptor(schema: ProtobufSchema, file: str, name: str) -> Any:
    """The descriptor of one file. Raises `InvalidSchema` for an unknown type."""
    known = runtime_file(file)
    if known is not None:
        return descriptor_messages().FileDescriptorProto.FromString(known)
    return _Builder(schema, file).file(name)


class _Builder:
    def __init__(self, schema: ProtobufSchema, file: str) -> None:
        self._schema = schema
        self._name = file
        self._file: ProtoFile = schema.files[file]
        self._messages = descriptor_messages()
        self._types = self._messages.FieldDescriptorProto

    def file(self, name: str) -> Any:
        file = self._file
        built = self._messages.FileDescriptorProto(name=name)
        if file.package:
            built.package = file.package
        built.dependency.extend(file.all_imports)
        count = len(file.imports)
        public_count = len(file.public_imports)
        built.public_dependency.extend(range(count, count + public_count))
        built.weak_dependency.extend(
            range(count + public_count, count + public_count + len(file.weak_imports))
        )
        for message in file.messages:
            self._message(built.message_type.add(), message, file.package)
        for enum in file.enums:
            _enum(built.enum_type.add(), enum)
        for service in file.services:
            self._service(built.service.add(), service)
        for extend in file.extends:
            for field in extend.fields:
                self._extension(built.extension.add(), field, extend.name, file.package)
        _set_options(built, file.options)
        if file.edition is not None:
            built.syntax = "editions"
            built.edition = _EDITION_2023
        elif file.syntax is not None:
            built.syntax = file.syntax
        return built

    def _message(self, built: Any, message: MessageType, scope: str) -> None:
        built.name = message.name
        inside = joined(scope, message.name)
        for each in message.messages:
            self._message(built.nested_type.add(), each, inside)
        synthetic: list[tuple[Any, Field]] = []
        for field, oneof in message.all_fields():
            made = built.field.add()
            self._field(made, field, inside, built)
            if oneof is not None:
                made.oneof_index = message.oneofs.index(oneof)
            elif self._file.is_proto3 and field.label == "optional":
                synthetic.append((made, field))
        for declared in message.oneofs:
            _oneof(built.oneof_decl.add(), declared)
        taken = {each.name for each, _ in message.all_fields()} | {
            each.name for each in message.oneofs
        }
        for made, field in synthetic:
            made.proto3_optional = True
            made.oneof_index = len(built.oneof_decl)
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            built.oneof_decl.add(name=name)
        for enum in message.enums:
            _enum(built.enum_type.add(), enum)
        for extend in message.extends:
            for field in extend.fields:
                self._extension(built.extension.add(), field, extend.name, inside)
        for extensions in message.extensions:
            for numbers in extensions.ranges:
                added = built.extension_range.add(start=numbers.first, end=numbers.last + 1)
                _set_options(added, extensions.options)
        _reserve(built, message.reserved, past_end=1)
        _set_options(built, message.options)

    def _extension(self, built: Any, field: Field, extendee: str, scope: str) -> None:
        self._field(built, field, scope, None)
        built.extendee = f".{self._find(extendee, scope).full_name}"

    def _field(self, built: Any, field: Field, scope: str, message: Any) -> None:
        built.name = field.name
        built.number = field.number
        built.label = _LABELS[field.label]
        if isinstance(field.type, MapType):
            built.label = _LABELS["repeated"]
            name = map_entry_name(field.name)
            self._map_entry(message.nested_type.add(name=name), field.type, scope)
            built.type = self._types.TYPE_MESSAGE
            built.type_name = f".{joined(scope, name)}"
        else:
            self._set_type(built, field.type, scope, is_group=field.is_group)
        if field.json_name is not None:
            built.json_name = field.json_name
        if field.default is not None:
            built.default_value = _default(field.default, is_bytes=field.type == "bytes")
        _set_options(built, field.options)

    def _map_entry(self, built: Any, kind: MapType, scope: str) -> None:
        for number, (name, each) in enumerate((("key", kind.key), ("value", kind.value)), 1):
            made = built.field.add(name=name, number=number, label=_LABELS[None])
            self._set_type(made, each, scope)
        built.options.map_entry = True

    def _set_type(self, built: Any, kind: str, scope: str, *, is_group: bool = False) -> None:
        if kind in SCALARS:
            built.type = self._types.Type.Value(f"TYPE_{kind.upper()}")
            return
        found = self._find(kind, scope)
        if isinstance(found.element, EnumType):
            built.type = self._types.TYPE_ENUM
        else:
            built.type = self._types.TYPE_GROUP if is_group else self._types.TYPE_MESSAGE
        built.type_name = f".{found.full_name}"

    def _service(self, built: Any, service: RpcService) -> None:
        built.name = service.name
        for each in service.rpcs:
            made = built.method.add(name=each.name)
            made.input_type = f".{self._find(each.request, self._file.package).full_name}"
            made.output_type = f".{self._find(each.response, self._file.package).full_name}"
            if each.is_request_stream:
                made.client_streaming = True
            if each.is_response_stream:
                made.server_streaming = True
            _set_options(made, each.options)
        _set_options(built, service.options)

    def _find(self, name: str, scope: str) -> Definition:
        return self._schema.resolve(name, scope, self._name)


def map_entry_name(field: str) -> str:
    """The name of the message for a map's entries, as protoc makes it."""
    return "".join(word[:1].upper() + word[1:] for word in field.split("_")) + "Entry"


def _oneof(built: Any, oneof: Oneof) -> None:
    built.name = oneof.name
    _set_options(built, oneof.options)


def _enum(built: Any, enum: EnumType) -> None:
    built.name = enum.name
    for each in enum.values:
        _set_options(built.value.add(name=each.name, number=each.number), each.options)
    _reserve(built, enum.reserved, past_end=0)
    _set_options(built, enum.options)


def _reserve(built: Any, reserved: tuple[Reserved, ...], *, past_end: int) -> None:
    for each in reserved:
        for value in each.values:
            if isinstance(value, NumberRange):
                built.reserved_range.add(start=value.first, end=value.last + past_end)
            else:
                built.reserved_name.append(value)


def _default(literal: Literal, *, is_bytes: bool) -> str:
    text = literal.text
    if literal.kind is not LiteralKind.STRING or not is_bytes:
        return _plain_number(text) if literal.kind is LiteralKind.NUMBER else text
    is_narrow = all(ord(each) <= _BYTE_MAX for each in text)
    raw = text.encode("latin-1") if is_narrow else text.encode()
    return "".join(
        chr(each) if 32 <= each < 127 and each not in b"\\\"'" else f"\\{each:03o}" for each in raw
    )


def _plain_number(text: str) -> str:
    """Hexadecimal and octal numbers as decimal ones, which descriptors have."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if digits[:2].lower() == "0x" or (digits.isdecimal() and digits[0] == "0" and len(digits) > 1):
        try:
            return f"{sign}{int(digits, 16 if digits[:2].lower() == '0x' else 8)}"
        except ValueError:
            return text
    return text


def _set_options(built: Any, options: tuple[Option, ...]) -> None:
    """Set the options that Protobuf defines, where their values fit."""
    for option in options:
        name = option.plain_name
        if name is not None:
            _set_option(built.options, name.split("."), option.value)


def _set_option(target: Any, path: list[str], value: Value) -> None:
    field = target.DESCRIPTOR.fields_by_name.get(path[0])
    if field is None:
        return
    if len(path) > 1:
        if field.message_type is not None and not field.is_repeated:
            _set_option(getattr(target, path[0]), path[1:], value)
        return
    values = value.items if isinstance(value, ListValue) else (value,)
    for each in values:
        _set_value(target, field, each)


def _set_value(target: Any, field: Any, value: Value) -> None:
    if field.message_type is not None:
        if not isinstance(value, MapValue):
            return
        place = getattr(target, field.name)
        place = place.add() if field.is_repeated else place
        place.SetInParent()
        for key, each in value.entries:
            _set_option(place, [key], each)
        return
    if not isinstance(value, Literal):
        return
    converted = _converted(field, value)
    if converted is None:
        return
    if field.is_repeated:
        getattr(target, field.name).append(converted)
    else:
        setattr(target, field.name, converted)


def _converted(field: Any, literal: Literal) -> Any:
    """The value in Python, or None if it is of another type."""
    if field.enum_type is not None:
        found = field.enum_type.values_by_name.get(literal.text)
        return None if found is None else found.number
    match literal.kind:
        case LiteralKind.BOOLEAN if field.type == field.TYPE_BOOL:
            return literal.text == "true"
        case LiteralKind.STRING if field.type == field.TYPE_STRING:
            return literal.text
        case LiteralKind.NUMBER if field.type == field.TYPE_INT32:
            number = _plain_number(literal.text)
            is_small = number.removeprefix("-").isdecimal() and len(number) < 10
            return int(number) if is_small else None
        case _:
            return None
