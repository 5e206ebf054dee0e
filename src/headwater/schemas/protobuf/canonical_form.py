"""Print a schema as Confluent's registry does, which finds ids by this text.

Comments are gone. A message has, in this order: reserved numbers, options, fields, oneofs, groups,
extension ranges, extensions, messages, enums. A blank line is before each of these parts except the
first; in a nested message it is indented like that message's first line.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from headwater.schemas.protobuf.schema import (
    MAX_TAG,
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

Lines = list[str]

_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)


def canonical(file: ProtoFile) -> str:
    """The text of a file, which parses to the same tree."""
    lines: Lines = []
    if file.syntax is not None:
        lines.append(f'syntax = "{file.syntax}";')
    if file.edition is not None:
        lines.append(f'edition = "{file.edition}";')
    if file.package:
        lines.append(f"package {file.package};")
    for part in (
        _imports(file),
        [line for each in file.options for line in _option_statement(each)],
        [line for each in file.messages if not each.is_group for line in _message(each)]
        + [line for each in file.enums for line in _enum(each)],
        [line for each in file.extends for line in _extend(each)],
        [line for each in file.services for line in _service(each)],
    ):
        if part:
            # Also at the beginning of a text without syntax and package, as Confluent's.
            lines += ["", *part]
    return "".join(f"{line}\n" for line in lines)


def _imports(file: ProtoFile) -> Lines:
    return [
        *(f"import {_quoted(each)};" for each in file.imports),
        *(f"import public {_quoted(each)};" for each in file.public_imports),
        *(f"import weak {_quoted(each)};" for each in file.weak_imports),
    ]


def _block(head: str, parts: Iterable[Lines]) -> Lines:
    """`head {`, the parts with blank lines between them, and `}`."""
    inside: Lines = []
    for part in parts:
        if part:
            inside += ["", *_indented(part)] if inside else _indented(part)
    if not inside:
        return [f"{head} {{}}"]
    return [f"{head} {{", *inside, "}"]


def _indented(lines: Iterable[str]) -> Lines:
    return [f"  {line}" for line in lines]


def _message(message: MessageType) -> Lines:
    return _block(f"message {message.name}", _message_parts(message))


def _message_parts(message: MessageType) -> list[Lines]:
    groups = {each.name: each for each in message.messages if each.is_group}
    return [
        [_reserved(each) for each in message.reserved],
        [line for each in message.options for line in _option_statement(each)],
        [line for each in message.fields if not each.is_group for line in _field(each)],
        [line for each in message.oneofs for line in _oneof(each, groups)],
        [line for each in message.fields if each.is_group for line in _group(each, groups)],
        [line for each in message.extensions for line in _extensions(each)],
        [line for each in message.extends for line in _extend(each)],
        [line for each in message.messages if not each.is_group for line in _message(each)]
        + [line for each in message.enums for line in _enum(each)],
    ]


def _group(field: Field, groups: dict[str, MessageType]) -> Lines:
    label = f"{field.label} " if field.label else ""
    head = [f"{label}group {field.type} = {field.number}"]
    if field.options:
        head = _appended(head, _options(field.options))
    body = groups.get(str(field.type))
    block = _block(head[-1], [] if body is None else _message_parts(body))
    return [*head[:-1], *block]


def _field(field: Field) -> Lines:
    label = f"{field.label} " if field.label else ""
    line = f"{label}{field.type} {field.name} = {field.number}"
    options = printed_options(field)
    return _ended(_appended([line], _options(options)) if options else [line])


def printed_options(field: Field) -> list[Option]:
    """Return the options of a field, with its default and JSON name."""
    options = list(field.options)
    if field.default is not None:
        options.append(Option((NamePart("default"),), field.default))
    if field.json_name is not None:
        text = Literal(LiteralKind.STRING, field.json_name)
        options.append(Option((NamePart("json_name"),), text))
    return options


def _oneof(oneof: Oneof, groups: dict[str, MessageType]) -> Lines:
    return _block(
        f"oneof {oneof.name}",
        [
            [line for each in oneof.options for line in _option_statement(each)],
            [line for each in oneof.fields if not each.is_group for line in _field(each)],
            [line for each in oneof.fields if each.is_group for line in _group(each, groups)],
        ],
    )


def _enum(enum: EnumType) -> Lines:
    # Reserved numbers, options and values are one part: no blank lines are between them.
    return _block(
        f"enum {enum.name}",
        [
            [_reserved(each) for each in enum.reserved]
            + [line for each in enum.options for line in _option_statement(each)]
            + [line for each in enum.values for line in _enum_value(each)]
        ],
    )


def _enum_value(value: EnumValue) -> Lines:
    line = [f"{value.name} = {value.number}"]
    return _ended(_appended(line, _options(value.options)) if value.options else line)


def _extend(extend: Extend) -> Lines:
    groups = {each.name: each for each in extend.groups}
    return _block(
        f"extend {extend.name}",
        [
            [line for each in extend.fields if not each.is_group for line in _field(each)],
            [line for each in extend.fields if each.is_group for line in _group(each, groups)],
        ],
    )


def _extensions(extensions: Extensions) -> Lines:
    line = [f"extensions {', '.join(_range(each) for each in extensions.ranges)}"]
    return _ended(_appended(line, _options(extensions.options)) if extensions.options else line)


def _reserved(reserved: Reserved) -> str:
    values = (
        _range(each) if isinstance(each, NumberRange) else f'"{each.translate(_ESCAPES)}"'
        for each in reserved.values
    )
    return f"reserved {', '.join(values)};"


def _range(numbers: NumberRange) -> str:
    if numbers.is_single:
        return str(numbers.first)
    return f"{numbers.first} to {'max' if numbers.last >= MAX_TAG else numbers.last}"


def _service(service: RpcService) -> Lines:
    return _block(
        f"service {service.name}",
        [
            [line for each in service.options for line in _option_statement(each)],
            [line for each in service.rpcs for line in _rpc(each)],
        ],
    )


def _rpc(rpc: Rpc) -> Lines:
    request = f"{'stream ' if rpc.is_request_stream else ''}{rpc.request}"
    response = f"{'stream ' if rpc.is_response_stream else ''}{rpc.response}"
    line = f"rpc {rpc.name} ({request}) returns ({response})"
    if not rpc.options:
        return [f"{line};"]
    options = [part for each in rpc.options for part in _option_statement(each)]
    return [f"{line} {{", *_indented(options), "};"]


def _option_statement(option: Option) -> Lines:
    return _ended([f"option {line}" if not at else line for at, line in enumerate(_option(option))])


def _options(options: Sequence[Option]) -> Lines:
    """In brackets: one on the same line, several on a line each."""
    return _bracketed([_option(each) for each in options])


def _bracketed(items: Sequence[Lines]) -> Lines:
    if len(items) == 1:
        return _ended(_appended(["["], items[0], glue=""), "]")
    return ["[", *_indented(_separated(items)), "]"]


def _separated(items: Sequence[Lines]) -> Lines:
    last = len(items) - 1
    return [
        line for at, each in enumerate(items) for line in (_ended(each, ",") if at < last else each)
    ]


def _option(option: Option) -> Lines:
    name = ".".join(str(each) for each in option.name)
    if isinstance(option.value, ListValue):
        return _appended([f"{name} ="], _bracketed([_value(each) for each in option.value.items]))
    return _appended([f"{name} ="], _value(option.value))


def _value(value: Value) -> Lines:
    match value:
        case Literal(LiteralKind.STRING, text):
            return [_quoted(text)]
        case Literal():
            return [value.text]
        case ListValue():
            return ["[", *_indented(_separated([_value(each) for each in value.items])), "]"]
        case MapValue():
            entries = [_appended([f"{key}:"], _value(each)) for key, each in value.entries]
            return ["{", *_indented(_separated(entries)), "}"]


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _appended(lines: Lines, more: Lines, glue: str = " ") -> Lines:
    """More lines, of which the first goes on with the last line."""
    return [*lines[:-1], f"{lines[-1]}{glue}{more[0]}", *more[1:]]


def _ended(lines: Lines, end: str = ";") -> Lines:
    return [*lines[:-1], lines[-1] + end]
