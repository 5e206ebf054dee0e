"""Parse the text of a .proto file: proto2, proto3 and edition 2023.

A recursive descent over the tokens. Nesting is limited, so that hostile text raises `InvalidSchema`
and nothing else.
"""

from dataclasses import dataclass, field
from typing import Final

from headwater.schemas.protobuf.option_parser import parse_option_statement, parse_options
from headwater.schemas.protobuf.schema import (
    MAX_TAG,
    EnumType,
    EnumValue,
    Extend,
    Extensions,
    Field,
    FieldType,
    Literal,
    LiteralKind,
    MapType,
    MessageType,
    NumberRange,
    Oneof,
    Option,
    ProtoFile,
    Reserved,
    Rpc,
    RpcService,
)
from headwater.schemas.protobuf.token_reader import TokenReader
from headwater.schemas.protobuf.tokens import DEPTH_MAX, TokenKind

EDITIONS: Final = ("2023",)
_SYNTAXES: Final = ("proto2", "proto3")
_LABELS: Final = ("optional", "required", "repeated")
_ENUM_MAX: Final = (1 << 31) - 1


def parse(text: str) -> ProtoFile:
    """Raises `InvalidSchema` if the text is not a .proto file."""
    return _Parser(text).file()


@dataclass(slots=True)
class _FileParts:
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    messages: list[MessageType] = field(default_factory=list)
    enums: list[EnumType] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[RpcService] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class _MessageParts:
    fields: list[Field] = field(default_factory=list)
    oneofs: list[Oneof] = field(default_factory=list)
    messages: list[MessageType] = field(default_factory=list)
    enums: list[EnumType] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


class _Parser:
    def __init__(self, text: str) -> None:
        self._reader = TokenReader(text)
        self._syntax: str | None = None
        self._edition: str | None = None
        self._depth = 0

    def file(self) -> ProtoFile:
        reader = self._reader
        self._read_syntax()
        parts = _FileParts()
        while not reader.is_at_end():
            if not reader.take(";"):
                self._file_statement(parts)
        # Groups of extensions are messages of the place where they are declared.
        groups = [group for each in parts.extends for group in each.groups]
        return ProtoFile(
            syntax=self._syntax,
            edition=self._edition,
            package=parts.package,
            imports=tuple(parts.imports),
            public_imports=tuple(parts.public_imports),
            weak_imports=tuple(parts.weak_imports),
            messages=(*parts.messages, *groups),
            enums=tuple(parts.enums),
            extends=tuple(parts.extends),
            services=tuple(parts.services),
            options=tuple(parts.options),
        )

    def _read_syntax(self) -> None:
        reader = self._reader
        if reader.take("syntax"):
            reader.expect("=")
            self._syntax = reader.strings()
            if self._syntax not in _SYNTAXES:
                raise reader.error(f"unexpected syntax: {self._syntax[:40]}")
            reader.expect(";")
        elif reader.take("edition"):
            reader.expect("=")
            self._edition = reader.strings()
            if self._edition not in EDITIONS:
                raise reader.error(f"edition {self._edition[:40]} is not supported")
            reader.expect(";")

    def _file_statement(self, parts: _FileParts) -> None:
        reader = self._reader
        token = reader.next()
        match token.text if token.kind is TokenKind.NAME else "":
            case "package":
                parts.package = reader.type_name()
                reader.expect(";")
            case "import":
                self._import(parts)
            case "option":
                parts.options.append(parse_option_statement(reader))
            case "message":
                parts.messages.append(self._message(reader.name()))
            case "enum":
                parts.enums.append(self._enum())
            case "extend":
                parts.extends.append(self._extend())
            case "service":
                parts.services.append(self._service())
            case "syntax" | "edition":
                raise reader.error("the syntax must be the first statement of the file", token)
            case _:
                raise reader.error("expected a declaration", token)

    def _import(self, parts: _FileParts) -> None:
        reader = self._reader
        if reader.take("public"):
            into = parts.public_imports
        elif reader.take("weak"):
            into = parts.weak_imports
        else:
            into = parts.imports
        into.append(reader.strings().replace("\\", "/"))
        reader.expect(";")

    def _message(self, name: str, *, is_group: bool = False) -> MessageType:
        """The body of a message, after its name."""
        reader = self._reader
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise reader.error(f"messages are nested more than {DEPTH_MAX} levels deep")
        parts = _MessageParts()
        reader.expect("{")
        while not reader.take("}"):
            if not reader.take(";"):
                self._message_statement(parts)
        self._depth -= 1
        groups = [group for each in parts.extends for group in each.groups]
        return MessageType(
            name=name,
            fields=tuple(parts.fields),
            oneofs=tuple(parts.oneofs),
            messages=(*parts.messages, *groups),
            enums=tuple(parts.enums),
            extensions=tuple(parts.extensions),
            extends=tuple(parts.extends),
            reserved=tuple(parts.reserved),
            options=tuple(parts.options),
            is_group=is_group,
        )

    def _message_statement(self, parts: _MessageParts) -> None:
        reader = self._reader
        token = reader.peek()
        match token.text if token.kind is TokenKind.NAME else "":
            case "message":
                reader.next()
                parts.messages.append(self._message(reader.name()))
            case "enum":
                reader.next()
                parts.enums.append(self._enum())
            case "extend":
                reader.next()
                parts.extends.append(self._extend())
            case "extensions":
                reader.next()
                parts.extensions.append(self._extensions())
            case "reserved":
                reader.next()
                parts.reserved.append(self._reserved(MAX_TAG))
            case "option":
                reader.next()
                parts.options.append(parse_option_statement(reader))
            case "oneof":
                reader.next()
                parts.oneofs.append(self._oneof(parts.messages))
            case _:
                parts.fields.append(self._field(parts.messages))

    def _field(self, messages: list[MessageType], *, in_oneof: bool = False) -> Field:
        """A field; the message of a group goes to `messages`."""
        reader = self._reader
        label = next((each for each in _LABELS if not in_oneof and reader.take(each)), None)
        if label == "required" and self._syntax == "proto3":
            raise reader.error("'required' label forbidden in proto3 field declarations")
        if label is not None and self._edition is not None and label != "repeated":
            raise reader.error(f"label '{label}' is not allowed in editions")
        token = reader.peek()
        if reader.take("group"):
            return self._group(label, messages)
        kind = self._field_type()
        if isinstance(kind, MapType) and label is not None:
            raise reader.error("'map' type cannot have label", token)
        needs_label = not in_oneof and self._syntax != "proto3" and self._edition is None
        if label is None and needs_label and not isinstance(kind, MapType):
            raise reader.error("expected 'required', 'optional' or 'repeated'", token)
        name = reader.name()
        reader.expect("=")
        number = reader.integer()
        options = parse_options(reader)
        reader.expect(";")
        return Field(
            name=name,
            number=number,
            type=kind,
            label=label,
            default=_literal(options, "default"),
            json_name=_text(_literal(options, "json_name")),
            options=_others(options),
        )

    def _field_type(self) -> FieldType:
        reader = self._reader
        name = reader.type_name()
        if name != "map" or not reader.take("<"):
            return name
        key = reader.type_name()
        reader.expect(",")
        value = reader.type_name()
        reader.expect(">")
        return MapType(key, value)

    def _group(self, label: str | None, messages: list[MessageType]) -> Field:
        reader = self._reader
        token = reader.peek()
        name = reader.name()
        if not name[0].isupper():
            raise reader.error("the name of a group must begin with a capital letter", token)
        reader.expect("=")
        number = reader.integer()
        options = parse_options(reader)
        messages.append(self._message(name, is_group=True))
        return Field(
            name=name.lower(),
            number=number,
            type=name,
            label=label,
            options=tuple(options),
            is_group=True,
        )

    def _oneof(self, messages: list[MessageType]) -> Oneof:
        reader = self._reader
        name = reader.name()
        fields: list[Field] = []
        options: list[Option] = []
        reader.expect("{")
        while not reader.take("}"):
            if reader.take(";"):
                continue
            if reader.take("option"):
                options.append(parse_option_statement(reader))
            else:
                fields.append(self._field(messages, in_oneof=True))
        return Oneof(name=name, fields=tuple(fields), options=tuple(options))

    def _extend(self) -> Extend:
        reader = self._reader
        name = reader.type_name()
        fields: list[Field] = []
        groups: list[MessageType] = []
        reader.expect("{")
        while not reader.take("}"):
            if not reader.take(";"):
                fields.append(self._field(groups))
        return Extend(name, tuple(fields), tuple(groups))

    def _extensions(self) -> Extensions:
        reader = self._reader
        ranges = [self._range(MAX_TAG)]
        while reader.take(","):
            ranges.append(self._range(MAX_TAG))
        options = parse_options(reader)
        reader.expect(";")
        return Extensions(tuple(ranges), tuple(options))

    def _reserved(self, maximum: int) -> Reserved:
        reader = self._reader
        values = [self._reserved_value(maximum)]
        while reader.take(","):
            values.append(self._reserved_value(maximum))
        reader.expect(";")
        return Reserved(tuple(values))

    def _reserved_value(self, maximum: int) -> NumberRange | str:
        reader = self._reader
        if reader.peek().kind is TokenKind.STRING:
            return reader.strings()
        if self._edition is not None and reader.peek().kind is TokenKind.NAME:
            return reader.name()
        return self._range(maximum)

    def _range(self, maximum: int) -> NumberRange:
        reader = self._reader
        first = reader.integer()
        if not reader.take("to"):
            return NumberRange(first, first, is_single=True)
        last = maximum if reader.take("max") else reader.integer()
        return NumberRange(first, last)

    def _enum(self) -> EnumType:
        reader = self._reader
        name = reader.name()
        values: list[EnumValue] = []
        options: list[Option] = []
        reserved: list[Reserved] = []
        reader.expect("{")
        while not reader.take("}"):
            if reader.take(";"):
                continue
            if reader.take("option"):
                options.append(parse_option_statement(reader))
            elif reader.take("reserved"):
                reserved.append(self._reserved(_ENUM_MAX))
            else:
                values.append(self._enum_value())
        return EnumType(
            name=name, values=tuple(values), options=tuple(options), reserved=tuple(reserved)
        )

    def _enum_value(self) -> EnumValue:
        reader = self._reader
        name = reader.name()
        reader.expect("=")
        number = reader.integer()
        options = parse_options(reader)
        reader.expect(";")
        return EnumValue(name=name, number=number, options=tuple(options))

    def _service(self) -> RpcService:
        reader = self._reader
        name = reader.name()
        rpcs: list[Rpc] = []
        options: list[Option] = []
        reader.expect("{")
        while not reader.take("}"):
            if reader.take(";"):
                continue
            if reader.take("option"):
                options.append(parse_option_statement(reader))
            else:
                reader.expect("rpc")
                rpcs.append(self._rpc())
        return RpcService(name=name, rpcs=tuple(rpcs), options=tuple(options))

    def _rpc(self) -> Rpc:
        reader = self._reader
        name = reader.name()
        is_request_stream, request = self._rpc_type()
        reader.expect("returns")
        is_response_stream, response = self._rpc_type()
        options: list[Option] = []
        if reader.take("{"):
            while not reader.take("}"):
                if not reader.take(";"):
                    reader.expect("option")
                    options.append(parse_option_statement(reader))
        else:
            reader.expect(";")
        return Rpc(
            name=name,
            request=request,
            response=response,
            is_request_stream=is_request_stream,
            is_response_stream=is_response_stream,
            options=tuple(options),
        )

    def _rpc_type(self) -> tuple[bool, str]:
        reader = self._reader
        reader.expect("(")
        name = reader.type_name()
        is_stream = name == "stream" and not reader.is_at(")")
        if is_stream:
            name = reader.type_name()
        reader.expect(")")
        return is_stream, name


def _literal(options: list[Option], name: str) -> Literal | None:
    """`default` and `json_name` are written as options, and are none."""
    for each in options:
        if each.plain_name == name and isinstance(each.value, Literal):
            return each.value
    return None


def _text(literal: Literal | None) -> str | None:
    return None if literal is None or literal.kind is not LiteralKind.STRING else literal.text


def _others(options: list[Option]) -> tuple[Option, ...]:
    return tuple(each for each in options if each.plain_name not in ("default", "json_name"))
