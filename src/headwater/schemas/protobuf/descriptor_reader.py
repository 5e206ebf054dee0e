"""Read a serialized FileDescriptorProto, as Python clients register schemas.

The tree is the one that Confluent's registry makes: type names are absolute, and maps stay repeated
fields with a nested message for their entries. Custom options are dropped.
"""

import base64
import binascii
from dataclasses import replace
from typing import Any, Final

from headwater.schemas.protobuf.runtime import descriptor_messages
from headwater.schemas.protobuf.schema import (
    EnumType,
    EnumValue,
    Extend,
    Extensions,
    Field,
    ListValue,
    Literal,
    LiteralKind,
    MapValue,
    MessageType,
    NamePart,
    NumberRange,
    Oneof,
    Option,
    ProtoFile,
    Reserved,
    Rpc,
    RpcService,
    Value,
)
from headwater.schemas.protobuf.tokens import DEPTH_MAX, invalid_protobuf, unescaped

_EDITION_2023: Final = 1000
# Confluent's order; the others follow by number.
_OPTION_ORDER: Final = (
    "java_package",
    "java_outer_classname",
    "java_multiple_files",
    "java_generate_equals_and_hash",
    "java_string_check_utf8",
    "optimize_for",
    "go_package",
    "cc_generic_services",
    "java_generic_services",
    "py_generic_services",
    "ctype",
    "packed",
    "jstype",
    "deprecated",
)


def read_base64(text: str) -> ProtoFile | None:
    """The file of a text in base64; None if it is none, or not a descriptor."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        return read_descriptor(raw)
    except ValueError:
        return None


def read_descriptor(raw: bytes) -> ProtoFile:
    """Raises ValueError for other bytes, and `InvalidSchema` for too deep ones."""
    from google.protobuf.message import DecodeError

    file = descriptor_messages().FileDescriptorProto()
    try:
        file.ParseFromString(raw)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return _Reader(file).file()


class _Reader:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_proto3 = file.syntax == "proto3"
        self._is_edition = file.syntax == "editions"
        self._types = descriptor_messages().FieldDescriptorProto

    def file(self) -> ProtoFile:
        file = self._file
        if self._is_edition and file.edition != _EDITION_2023:
            raise invalid_protobuf(f"edition {file.edition} is not supported")
        public, weak = set(file.public_dependency), set(file.weak_dependency)
        imports = list(enumerate(file.dependency))
        return ProtoFile(
            syntax=file.syntax if file.syntax in ("proto2", "proto3") else None,
            edition="2023" if self._is_edition else None,
            package=file.package,
            imports=tuple(name for at, name in imports if at not in public and at not in weak),
            public_imports=tuple(name for at, name in imports if at in public),
            weak_imports=tuple(name for at, name in imports if at in weak and at not in public),
            messages=tuple(self._message(each, 1) for each in file.message_type),
            enums=tuple(self._enum(each) for each in file.enum_type),
            extends=self._extends(file.extension),
            services=tuple(_service(each) for each in file.service),
            options=_options(file),
        )

    def _message(self, given: Any, depth: int) -> MessageType:
        if depth > DEPTH_MAX:
            raise invalid_protobuf(f"messages are nested more than {DEPTH_MAX} levels deep")
        groups = {
            each.type_name.rpartition(".")[2]
            for each in given.field
            if each.type == self._types.TYPE_GROUP
        }
        members: dict[int, list[Field]] = {}
        fields = []
        for each in given.field:
            in_oneof = each.HasField("oneof_index") and not each.proto3_optional
            found = self._field(each, in_oneof=in_oneof)
            if in_oneof:
                members.setdefault(each.oneof_index, []).append(found)
            else:
                fields.append(found)
        nested = [self._message(each, depth + 1) for each in given.nested_type]
        return MessageType(
            name=given.name,
            fields=tuple(fields),
            oneofs=tuple(
                Oneof(name=each.name, fields=tuple(members[at]), options=_options(each))
                for at, each in enumerate(given.oneof_decl)
                if at in members
            ),
            messages=tuple(
                _as_group(each) if each.name in groups and not self._is_edition else each
                for each in nested
            ),
            enums=tuple(self._enum(each) for each in given.enum_type),
            extensions=tuple(
                Extensions((_range(each.start, each.end - 1),), _options(each))
                for each in given.extension_range
            ),
            extends=self._extends(given.extension),
            reserved=(
                *(Reserved((_range(each.start, each.end - 1),)) for each in given.reserved_range),
                *(Reserved((name,)) for name in given.reserved_name),
            ),
            options=_options(given),
        )

    def _field(self, given: Any, *, in_oneof: bool) -> Field:
        is_group = given.type == self._types.TYPE_GROUP and not self._is_edition
        name = self._types.Type.Name(given.type) if given.HasField("type") else ""
        kind = given.type_name or name.removeprefix("TYPE_").lower()
        if is_group:
            kind = kind.rpartition(".")[2]
        return Field(
            name=given.name,
            number=given.number,
            type=kind,
            label=None if in_oneof else self._label(given),
            default=None if self._is_proto3 else _default(given, self._types),
            json_name=given.json_name if given.HasField("json_name") else None,
            options=_options(given),
            is_group=is_group,
        )

    def _label(self, given: Any) -> str | None:
        if given.proto3_optional:
            return "optional"
        if given.label == self._types.LABEL_REPEATED:
            return "repeated"
        if self._is_proto3 or self._is_edition:
            return None
        return "required" if given.label == self._types.LABEL_REQUIRED else "optional"

    def _extends(self, given: Any) -> tuple[Extend, ...]:
        found: dict[str, list[Field]] = {}
        for each in given:
            found.setdefault(each.extendee, []).append(self._field(each, in_oneof=False))
        return tuple(Extend(name, tuple(fields)) for name, fields in found.items())

    def _enum(self, given: Any) -> EnumType:
        return EnumType(
            name=given.name,
            values=tuple(
                EnumValue(name=each.name, number=each.number, options=_options(each))
                for each in given.value
            ),
            options=_options(given),
            reserved=(
                *(Reserved((_range(each.start, each.end),)) for each in given.reserved_range),
                *(Reserved((name,)) for name in given.reserved_name),
            ),
        )


def _as_group(message: MessageType) -> MessageType:
    return replace(message, is_group=True)


def _range(first: int, last: int) -> NumberRange:
    return NumberRange(first, last, is_single=first == last)


def _default(given: Any, types: Any) -> Literal | None:
    if not given.HasField("default_value"):
        return None
    text: str = given.default_value
    if given.type == types.TYPE_STRING:
        return Literal(LiteralKind.STRING, text)
    if given.type == types.TYPE_BYTES:
        return Literal(LiteralKind.STRING, unescaped(text))
    if given.type == types.TYPE_BOOL:
        return Literal(LiteralKind.BOOLEAN, text)
    is_word = given.type == types.TYPE_ENUM or text in ("inf", "nan")
    return Literal(LiteralKind.WORD if is_word else LiteralKind.NUMBER, text)


def _service(given: Any) -> RpcService:
    return RpcService(
        name=given.name,
        rpcs=tuple(
            Rpc(
                name=each.name,
                request=each.input_type,
                response=each.output_type,
                is_request_stream=each.client_streaming,
                is_response_stream=each.server_streaming,
                options=_options(each),
            )
            for each in given.method
        ),
        options=_options(given),
    )


def _options(given: Any) -> tuple[Option, ...]:
    if not given.HasField("options"):
        return ()
    found: list[Option] = []
    for field, value in sorted(given.options.ListFields(), key=_rank):
        if field.is_extension or field.name == "uninterpreted_option":
            continue
        values = value if field.is_repeated else [value]
        found += [Option((NamePart(field.name),), _value(field, each)) for each in values]
    return tuple(found)


def _rank(found: tuple[Any, Any]) -> tuple[int, int]:
    field = found[0]
    known = _OPTION_ORDER.index(field.name) if field.name in _OPTION_ORDER else len(_OPTION_ORDER)
    return known, field.number


def _value(field: Any, value: Any) -> Value:
    if field.message_type is not None:
        return MapValue(
            tuple(
                (each.name, _values(each, inner))
                for each, inner in value.ListFields()
                if not each.is_extension
            )
        )
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Literal(LiteralKind.WORD, str(value) if known is None else known.name)
    match value:
        case bool():
            return Literal(LiteralKind.BOOLEAN, "true" if value else "false")
        case bytes():
            return Literal(LiteralKind.STRING, value.decode("latin-1"))
        case str():
            return Literal(LiteralKind.STRING, value)
        case _:
            return Literal(LiteralKind.NUMBER, str(value))


def _values(field: Any, value: Any) -> Value:
    if field.is_repeated:
        return ListValue(tuple(_value(field, each) for each in value))
    return _value(field, value)
