"""Split the text of a .proto file into tokens, one after the other.

Comments and spaces are dropped. A name with dots is one token, as is a number; signs are not part
of numbers.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from headwater.schemas.errors import InvalidSchema, invalid_schema_of_type

CHARS_MAX: Final = 1_000_000
DEPTH_MAX: Final = 32
"""Levels of nested messages, as in protoc, and of values of options."""

PROTOBUF: Final = "PROTOBUF"


class TokenKind(Enum):
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    SYMBOL = "symbol"
    END = "end"


class ProtoToken(NamedTuple):
    """`text` of a string is what it stands for, without quotes and escapes."""

    kind: TokenKind
    text: str
    position: int


# Possessive, and each alternative begins with other characters: nothing is tried twice at a place.
_SKIPPED: Final = re.compile(r"(?:[ \t\r\n\v\f\ufeff]+|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""(\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |([{}\[\]()<>;:,=+\-]|\.(?![0-9]))
    |((?:[0-9]|\.[0-9])(?:[eE][+-]|[0-9A-Za-z_.])*)
    |("(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = (
    TokenKind.END,
    TokenKind.NAME,
    TokenKind.SYMBOL,
    TokenKind.NUMBER,
    TokenKind.STRING,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_ESCAPED: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_UNICODE_MAX: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def check_size(text: str) -> None:
    """Raises `InvalidSchema` for a text that is too long, or that UTF-8 cannot encode."""
    if len(text) > CHARS_MAX:
        raise invalid_protobuf(f"the schema has more than {CHARS_MAX} characters")
    if not text.isascii() and any(ord(each) in _SURROGATES for each in text):
        raise invalid_protobuf("the schema has unpaired surrogates")


def token_after(text: str, position: int) -> tuple[ProtoToken, int]:
    """The next token, and where it ends. Raises `InvalidSchema`, with line and column."""
    skipped = _SKIPPED.match(text, position)
    start = position if skipped is None else skipped.end()
    if start == len(text):
        return ProtoToken(TokenKind.END, "", start), start
    match = _TOKEN.match(text, start)
    if match is None:
        raise syntax_error(text, start, _reason(text, start))
    kind = _KINDS[match.lastindex or 0]
    content = match[0]
    if kind is TokenKind.STRING:
        try:
            content = unescaped(content[1:-1])
        except ValueError as error:
            raise syntax_error(text, start, str(error)) from None
    return ProtoToken(kind, content, start), match.end()


def invalid_protobuf(details: str) -> InvalidSchema:
    return invalid_schema_of_type(PROTOBUF, details)


def syntax_error(text: str, position: int, reason: str) -> InvalidSchema:
    """In Confluent's words, with Headwater's reason."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return invalid_protobuf(
        f"Could not parse Protobuf - Syntax error in :{line}:{column}: {reason}"
    )


def _reason(text: str, position: int) -> str:
    if text.startswith("/*", position):
        return "unterminated comment"
    if text[position] in "\"'":
        return "unterminated string"
    return f"unexpected {text[position]!r}"


def unescaped(content: str) -> str:
    """A string without its escapes; ValueError for an escape that there is not."""
    return _ESCAPE.sub(_replaced, content) if "\\" in content else content


def _replaced(match: re.Match[str]) -> str:
    if match[5] is not None:
        if match[5] in "xXuU":
            raise ValueError(f"expected digits after \\{match[5]}")
        return _ESCAPED.get(match[5], match[5])
    number = int(match[1] or match[3] or match[4] or match[2], 8 if match[2] else 16)
    if number > _UNICODE_MAX or number in _SURROGATES:
        raise ValueError(f"there is no character {number:x}")
    return chr(number)
