"""Parse and apply `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name applies; DEFAULT keeps the name.

Note: rules may contain commas, so the list is parsed rather than split.

Note: every occurrence of the pattern is replaced, as in Kafka (4.1). A pattern that also matches
the empty rest, such as `(.*)`, is replaced twice.
"""

import re
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import InvalidSetting, TlsHandshakeFailed

_NAME: Final = "ssl.principal.mapping.rules"
_DEFAULT: Final = "DEFAULT"
_RULE: Final = "RULE:"
# A pattern or replacement up to its end, an unescaped slash.
_SIDE: Final = re.compile(r"((?:\\.|[^\\/])*)/", re.DOTALL)
_FLAG: Final = re.compile(r"([LU]?)\s*(?:,|$)")
_PLAIN: Final = re.compile(r"DEFAULT\s*(?:,|$)")
_BLANK: Final = re.compile(r"[\s,]*")
# In a replacement: an escaped character, a group reference, or a lone dollar sign.
_MARK: Final = re.compile(r"\\(.)|\$(\d+)|\$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    flag: str = ""

    def apply(self, name: str) -> str | None:
        """Map a name; None if the pattern does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replaced, name)
        if self.flag == "L":
            return mapped.lower()
        return mapped.upper() if self.flag == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:
        return _MARK.sub(lambda mark: _expand(mark, match), self.replacement)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse all rules; `InvalidSetting` for a malformed one."""
    rules: list[Rule] = []
    position = _skip(text, 0)
    while position < len(text):
        plain = _PLAIN.match(text, position)
        if plain is not None:
            rules.append(Rule())
            position = plain.end()
        else:
            rule, position = _parse_rule(text, position)
            rules.append(rule)
        position = _skip(text, position)
    return tuple(rules)


def mapped(rules: tuple[Rule, ...], name: str) -> str:
    """Map a name by the first matching rule.

    Raises `TlsHandshakeFailed` if none matches, as in Kafka.
    """
    for rule in rules:
        found = rule.apply(name)
        if found is not None:
            return found
    raise TlsHandshakeFailed(f"no rule of {_NAME} matches {name}")


def _parse_rule(text: str, position: int) -> tuple[Rule, int]:
    if not text.startswith(_RULE, position):
        raise _wrong(text, position)
    pattern = _SIDE.match(text, position + len(_RULE))
    replacement = pattern and _SIDE.match(text, pattern.end())
    flag = replacement and _FLAG.match(text, replacement.end())
    if not (pattern and replacement and flag):
        raise _wrong(text, position)
    try:
        # As in Java, \w matches ASCII only.
        compiled = re.compile(pattern[1], re.ASCII)
    except re.error as error:
        raise InvalidSetting(f"{_NAME}: invalid pattern {pattern[1]!r}: {error}") from error
    return Rule(pattern=compiled, replacement=replacement[1], flag=flag[1]), flag.end()


def _wrong(text: str, position: int) -> InvalidSetting:
    return InvalidSetting(
        f"{_NAME}: expected DEFAULT or RULE:pattern/replacement/[L|U], found {text[position:]!r}"
    )


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    assert blank is not None, "the pattern matches the empty string"
    return blank.end()


def _expand(mark: re.Match[str], match: re.Match[str]) -> str:
    if mark[1] is not None:
        return mark[1]
    digits = mark[2]
    if digits is None:
        return "$"
    # As in Java, the longest number that names an existing group; further digits are literal.
    for length in range(len(digits), 0, -1):
        group = int(digits[:length])
        if group <= match.re.groups and (length == 1 or digits[0] != "0"):
            return (match[group] or "") + digits[length:]
    return f"${digits}"
