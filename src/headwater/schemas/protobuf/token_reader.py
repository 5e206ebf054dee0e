"""Read tokens one after the other, with errors that name line and column."""

from typing import Final

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.tokens import (
    ProtoToken,
    TokenKind,
    check_size,
    syntax_error,
    token_after,
)

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_DIGITS_MAX: Final = 20


class TokenReader:
    """A position in the tokens of a text."""

    def __init__(self, text: str) -> None:
        check_size(text)
        self._text = text
        self._next, self._end = token_after(text, 0)

    def peek(self) -> ProtoToken:
        return self._next

    def next(self) -> ProtoToken:
        token = self._next
        if token.kind is TokenKind.END:
            raise self.error("unexpected end of file")
        self._next, self._end = token_after(self._text, self._end)
        return token

    def is_at(self, text: str) -> bool:
        """Whether the next token is this symbol or word."""
        return self._next.text == text and self._next.kind is not TokenKind.STRING

    def is_at_end(self) -> bool:
        return self._next.kind is TokenKind.END

    def take(self, text: str) -> bool:
        """Read this symbol or word if it is the next token."""
        if self._next.text != text or self._next.kind is TokenKind.STRING:
            return False
        self.next()
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"expected '{text}'")

    def name(self) -> str:
        """A name without dots."""
        token = self.next()
        if token.kind is not TokenKind.NAME or "." in token.text:
            raise self.error("expected a name", token)
        return token.text

    def type_name(self) -> str:
        """A name, with dots or without."""
        token = self.next()
        if token.kind is not TokenKind.NAME:
            raise self.error("expected a name", token)
        return token.text

    def strings(self) -> str:
        """A string; adjacent ones are one."""
        token = self.next()
        if token.kind is not TokenKind.STRING:
            raise self.error("expected a quoted string", token)
        parts = [token.text]
        while self.peek().kind is TokenKind.STRING:
            parts.append(self.next().text)
        return "".join(parts)

    def integer(self) -> int:
        """A number of 32 bits, decimal, octal or hexadecimal."""
        is_negative = self.take("-")
        token = self.next()
        text = token.text.lower()
        try:
            if token.kind is not TokenKind.NUMBER or len(text) > _DIGITS_MAX or "_" in text:
                raise ValueError(text)
            is_octal = text.startswith("0") and text.isdecimal() and len(text) > 1
            number = int(text, 8 if is_octal else 0)
        except ValueError:
            raise self.error("expected an integer", token) from None
        number = -number if is_negative else number
        if not _INT32_MIN <= number <= _INT32_MAX:
            raise self.error("the number does not fit into 32 bits", token)
        return number

    def error(self, reason: str, token: ProtoToken | None = None) -> InvalidSchema:
        """By default at the next token."""
        found = token or self.peek()
        said = "the end of the file" if found.kind is TokenKind.END else f"'{found.text[:40]}'"
        return syntax_error(self._text, found.position, f"{reason}, found {said}")
