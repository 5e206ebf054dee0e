"""The text of `sasl.jaas.config`, which Kafka takes from Java: whose login, and with what.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="alice-secret" user_alice="alice-secret";

What a reader would get wrong: the name of the module is a class of Java's. Only its last part
counts here, and an error never repeats the text, since there is a password in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.exceptions import InvalidSetting

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<comment> //[^\n]* | /\*.*?\*/ )
      | "(?P<quoted> (?:[^"\\\n]|\\.)* )"
      | '(?P<single> (?:[^'\\\n]|\\.)* )'
      | (?P<word> [A-Za-z0-9_$.+-]+ )
      | (?P<mark> [=;] )
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


@dataclass(frozen=True, slots=True)
class Login:
    """One entry. Its options are secrets and never shown."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def users(self) -> Mapping[str, str]:
        """The passwords of `user_<name>`, which a broker compares."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


def read_jaas(text: str) -> Login:
    """The one login that the text describes, or `InvalidSetting`."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0][1] or tokens[1][1]:
        raise InvalidSetting(_expected("it begins with a login module and the word required"))
    if tokens[1][0].lower() not in _FLAGS:
        raise InvalidSetting(_expected(f"after the module stands one of {', '.join(_FLAGS)}"))
    options: dict[str, str] = {}
    place = 2
    while place < len(tokens) and tokens[place] != (";", True):
        if place + 2 >= len(tokens) or tokens[place][1] or tokens[place + 1] != ("=", True):
            raise InvalidSetting(_expected('options are written as name="value"'))
        if tokens[place + 2][1]:
            raise InvalidSetting(_expected(f"{tokens[place][0]} has no value"))
        options[tokens[place][0]] = tokens[place + 2][0]
        place += 3
    if place >= len(tokens):
        raise InvalidSetting(_expected("it ends with a semicolon"))
    if place + 1 < len(tokens):
        raise InvalidSetting(_expected("it has one login module, and not several"))
    return Login(tokens[0][0].rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, and whether each is a mark rather than a word."""
    tokens: list[tuple[str, bool]] = []
    place = 0
    rest = text.rstrip()
    while place < len(rest):
        found = _TOKEN.match(rest, place)
        if found is None:
            raise InvalidSetting(_expected("a quote is not closed, or a sign has no meaning"))
        place = found.end()
        if found["comment"] is not None:
            continue
        quoted = found["quoted"] if found["quoted"] is not None else found["single"]
        if quoted is not None:
            tokens.append((_ESCAPE.sub(_unescape, quoted), False))
        elif found["word"] is not None:
            tokens.append((found["word"], False))
        else:
            tokens.append((found["mark"], True))
    return tokens


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])


def _expected(why: str) -> str:
    return f"sasl.jaas.config cannot be read: {why}"
