"""Parse `sasl.jaas.config`.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="alice-secret" user_alice="alice-secret";

Note: the module is a Java class name, of which only the last part matters here. Errors never repeat
the text, because it contains a password.
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
    """One login module with its options, which are secrets hidden in the repr."""

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
        """Users and passwords of `user_<name>` options, which a broker verifies."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


def read_jaas(text: str) -> Login:
    """Parse the text's single login module, or raise `InvalidSetting`."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0][1] or tokens[1][1]:
        raise InvalidSetting(_expected("it must start with a login module and the word required"))
    if tokens[1][0].lower() not in _FLAGS:
        raise InvalidSetting(
            _expected(f"the module must be followed by one of {', '.join(_FLAGS)}")
        )
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != (";", True):
        if (
            position + 2 >= len(tokens)
            or tokens[position][1]
            or tokens[position + 1] != ("=", True)
        ):
            raise InvalidSetting(_expected('options must have the form name="value"'))
        if tokens[position + 2][1]:
            raise InvalidSetting(_expected(f"option {tokens[position][0]} has no value"))
        options[tokens[position][0]] = tokens[position + 2][0]
        position += 3
    if position >= len(tokens):
        raise InvalidSetting(_expected("it must end with a semicolon"))
    if position + 1 < len(tokens):
        raise InvalidSetting(_expected("it must have exactly one login module"))
    return Login(tokens[0][0].rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Tokens, each with whether it is punctuation (`=` or `;`) rather than a word."""
    tokens: list[tuple[str, bool]] = []
    position = 0
    rest = text.rstrip()
    while position < len(rest):
        found = _TOKEN.match(rest, position)
        if found is None:
            raise InvalidSetting(_expected("unclosed quote or unexpected character"))
        position = found.end()
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
    return f"invalid sasl.jaas.config: {why}"
