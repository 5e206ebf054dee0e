"""Parse options: `name = value`, with values in Protobuf's text format."""

from typing import Final

from headwater.schemas.protobuf.schema import (
    ListValue,
    Literal,
    LiteralKind,
    MapValue,
    NamePart,
    Option,
    Value,
)
from headwater.schemas.protobuf.token_reader import TokenReader
from headwater.schemas.protobuf.tokens import DEPTH_MAX, TokenKind

_CLOSING: Final = {"{": "}", "<": ">"}


def parse_option(reader: TokenReader) -> Option:
    """`name = value`."""
    name = _option_name(reader)
    reader.expect("=")
    return Option(name, _value(reader, 0))


def parse_option_statement(reader: TokenReader) -> Option:
    """`name = value;`, after the word `option`."""
    found = parse_option(reader)
    reader.expect(";")
    return found


def parse_options(reader: TokenReader) -> list[Option]:
    """Options in brackets, if there are any."""
    if not reader.take("["):
        return []
    found = [parse_option(reader)]
    while reader.take(","):
        found.append(parse_option(reader))
    reader.expect("]")
    return found


def _option_name(reader: TokenReader) -> tuple[NamePart, ...]:
    parts = [_name_part(reader)]
    while True:
        token = reader.peek()
        if token.kind is TokenKind.NAME and token.text.startswith("."):
            # `(custom).part`: the dot is read together with the name.
            reader.next()
            parts.append(NamePart(token.text[1:]))
        elif reader.take("."):
            parts.append(_name_part(reader))
        else:
            return tuple(parts)


def _name_part(reader: TokenReader) -> NamePart:
    if reader.take("("):
        name = reader.type_name()
        reader.expect(")")
        return NamePart(name, is_custom=True)
    return NamePart(reader.type_name())


def _value(reader: TokenReader, depth: int) -> Value:
    if depth > DEPTH_MAX:
        raise reader.error("the value of an option is nested too deeply")
    token = reader.peek()
    if token.kind is TokenKind.STRING:
        return Literal(LiteralKind.STRING, reader.strings())
    if token.text in _CLOSING:
        return _map(reader, depth)
    if token.text == "[" and token.kind is TokenKind.SYMBOL:
        return _list(reader, depth)
    return _plain(reader)


def _plain(reader: TokenReader) -> Literal:
    sign = "-" if reader.take("-") else ""
    if not sign:
        reader.take("+")
    token = reader.next()
    if token.kind is TokenKind.NUMBER or (token.kind is TokenKind.NAME and sign):
        return Literal(LiteralKind.NUMBER, sign + token.text)
    if token.kind is not TokenKind.NAME:
        raise reader.error("expected a value", token)
    is_boolean = token.text in ("true", "false")
    return Literal(LiteralKind.BOOLEAN if is_boolean else LiteralKind.WORD, token.text)


def _list(reader: TokenReader, depth: int) -> ListValue:
    reader.expect("[")
    items: list[Value] = []
    while not reader.take("]"):
        items.append(_value(reader, depth + 1))
        if not reader.take(",") and not reader.is_at("]"):
            raise reader.error("expected ',' or ']'")
    return ListValue(tuple(items))


def _map(reader: TokenReader, depth: int) -> MapValue:
    closing = _CLOSING[reader.next().text]
    found: dict[str, list[Value]] = {}
    while not reader.take(closing):
        key = _key(reader)
        if not reader.take(":") and reader.peek().text not in ("{", "<", "["):
            raise reader.error("expected ':' in an option")
        value = _value(reader, depth + 1)
        if key in found and isinstance(value, ListValue):
            found[key].extend(value.items)
        else:
            found.setdefault(key, []).append(value)
        if not reader.take(","):
            reader.take(";")
    return MapValue(tuple((key, _merged(values)) for key, values in found.items()))


def _merged(values: list[Value]) -> Value:
    """A key that is given several times has a list."""
    if len(values) == 1:
        return values[0]
    first = values[0].items if isinstance(values[0], ListValue) else (values[0],)
    return ListValue((*first, *values[1:]))


def _key(reader: TokenReader) -> str:
    if reader.take("["):
        name = reader.type_name()
        reader.expect("]")
        return f"[{name}]"
    return reader.type_name()
