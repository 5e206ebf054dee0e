"""Read schemas in DDL, `id bigint, tags array<string>`, without Spark.

It accepts the schemas that Spark's parser accepts for JSON and CSV.

Note: names are kept as written, but types are in Spark's short form (`long` is `bigint`), so that
two spellings of one type are equal.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import HeadwaterError

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|(.))", re.DOTALL)
_SIMPLE: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "timestamp_ltz": "timestamp",
    "variant": "variant",
}
_SIZED: Final = frozenset({"char", "character", "varchar"})
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_MOST_DIGITS: Final = 38


class BadSchema(HeadwaterError):
    """Spark could not parse the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlField:
    name: str
    # In Spark's short form: `bigint`, `array<string>`.
    kind: str
    # Of a struct.
    fields: tuple["DdlField", ...] = ()


def read_schema(text: str) -> tuple[DdlField, ...]:
    """Parse the columns of a schema. Raises `BadSchema`."""
    reader = _Reader(text)
    fields = reader.fields()
    if reader.next is not None:
        raise reader.expected("a comma or the end")
    return fields


class _Reader:
    """Parser with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [found[0].strip() for found in _TOKEN.finditer(text.strip())]
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def fields(self) -> tuple[DdlField, ...]:
        found = [self._field()]
        while self.next == ",":
            self._at += 1
            found.append(self._field())
        names = [each.name.lower() for each in found]
        for name in names:
            if names.count(name) > 1:
                raise BadSchema(f"the column {name} is twice in the schema {self._text!r}")
        return tuple(found)

    def expected(self, wanted: str) -> BadSchema:
        found = "the end" if self.next is None else repr(self.next)
        return BadSchema(f"{wanted} is expected and not {found} in the schema {self._text!r}")

    def _field(self) -> DdlField:
        name = self._name()
        if self.next == ":":
            self._at += 1
        kind, inner = self._kind()
        if self._takes("not"):
            self._expect("null")
        if self._takes("comment"):
            self._comment()
        return DdlField(name=name, kind=kind, fields=inner)

    def _name(self) -> str:
        token = self.next
        if token is None or not (token[0] == "`" or token[0] == "_" or token[0].isalpha()):
            raise self.expected("the name of a column")
        self._at += 1
        return token[1:-1].replace("``", "`") if token[0] == "`" else token

    def _kind(self) -> tuple[str, tuple[DdlField, ...]]:
        word = (self.next or "").lower()
        if word in _SIMPLE:
            self._at += 1
            return _SIMPLE[word], ()
        if word in _DECIMALS:
            self._at += 1
            return self._decimal(), ()
        if word in _SIZED:
            self._at += 1
            self._expect("(")
            self._number()
            self._expect(")")
            return "string", ()
        if word in ("array", "map", "struct"):
            self._at += 1
            return self._nested(word)
        raise self.expected("a type")

    def _decimal(self) -> str:
        if self.next != "(":
            return "decimal(10,0)"
        self._expect("(")
        digits, scale = self._number(), 0
        if self.next == ",":
            self._at += 1
            scale = self._number()
        self._expect(")")
        if digits > _MOST_DIGITS or scale > digits:
            raise BadSchema(f"there is no decimal({digits},{scale}) in the schema {self._text!r}")
        return f"decimal({digits},{scale})"

    def _nested(self, word: str) -> tuple[str, tuple[DdlField, ...]]:
        self._expect("<")
        inner: tuple[DdlField, ...] = ()
        if word == "struct":
            inner = self.fields()
            kind = "struct<" + ",".join(f"{each.name}:{each.kind}" for each in inner) + ">"
        elif word == "array":
            kind = f"array<{self._kind()[0]}>"
        else:
            key = self._kind()[0]
            self._expect(",")
            kind = f"map<{key},{self._kind()[0]}>"
        self._expect(">")
        return kind, inner

    def _number(self) -> int:
        token = self.next
        if token is None or not token.isdecimal():
            raise self.expected("a number")
        self._at += 1
        return int(token)

    def _comment(self) -> None:
        quote = self.next
        if quote not in ("'", '"'):
            raise self.expected("a text in quotes")
        self._at += 1
        while self.next not in (quote, None):
            self._at += 1
        self._expect(quote)

    def _takes(self, word: str) -> bool:
        if (self.next or "").lower() != word:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            raise self.expected(token)
