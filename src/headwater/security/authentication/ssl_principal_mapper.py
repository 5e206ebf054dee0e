"""`ssl.principal.mapping.rules`: how the name in a certificate becomes that of a principal.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern is the whole name counts; DEFAULT leaves the name as it is. What a
reader would get wrong: a comma may stand inside a rule, so rules are read one after the other and
not split. And every occurrence of a pattern is replaced: one that also fits the empty rest, as
`(.*)` does, is replaced twice. Kafka does this (4.1).
"""

import re
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import InvalidSetting, TlsRefused

_NAME: Final = "ssl.principal.mapping.rules"
_DEFAULT: Final = "DEFAULT"
_RULE: Final = "RULE:"
# One end of a pattern or a replacement: a slash that no backslash escapes.
_SIDE: Final = re.compile(r"((?:\\.|[^\\/])*)/", re.DOTALL)
_FLAG: Final = re.compile(r"([LU]?)\s*(?:,|$)")
_PLAIN: Final = re.compile(r"DEFAULT\s*(?:,|$)")
_BLANK: Final = re.compile(r"[\s,]*")
# In a replacement: an escaped character, a group, or a dollar that is neither.
_MARK: Final = re.compile(r"\\(.)|\$(\d+)|\$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    flag: str = ""

    def apply(self, name: str) -> str | None:
        """What becomes of a name; None when the rule is not for it."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replaced, name)
        if self.flag == "L":
            return mapped.lower()
        return mapped.upper() if self.flag == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:
        return _MARK.sub(lambda mark: _meaning(mark, match), self.replacement)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """All rules in their order; `InvalidSetting` for one that is none."""
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
    """The name by the first rule that is for it, or `TlsRefused`: Kafka lets nobody in without."""
    for rule in rules:
        found = rule.apply(name)
        if found is not None:
            return found
    raise TlsRefused(f"no rule of {_NAME} is for {name}")


def _parse_rule(text: str, position: int) -> tuple[Rule, int]:
    if not text.startswith(_RULE, position):
        raise _wrong(text, position)
    pattern = _SIDE.match(text, position + len(_RULE))
    replacement = pattern and _SIDE.match(text, pattern.end())
    flag = replacement and _FLAG.match(text, replacement.end())
    if not (pattern and replacement and flag):
        raise _wrong(text, position)
    try:
        # As in Java, a word has letters of English only.
        compiled = re.compile(pattern[1], re.ASCII)
    except re.error as error:
        raise InvalidSetting(f"{_NAME}: {pattern[1]!r} is no pattern: {error}") from error
    return Rule(pattern=compiled, replacement=replacement[1], flag=flag[1]), flag.end()


def _wrong(text: str, position: int) -> InvalidSetting:
    return InvalidSetting(
        f"{_NAME}: a rule is DEFAULT or RULE:pattern/replacement/ with L or U behind it, "
        f"and not {text[position:]!r}"
    )


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    assert blank is not None, "it may be empty"
    return blank.end()


def _meaning(mark: re.Match[str], match: re.Match[str]) -> str:
    if mark[1] is not None:
        return mark[1]
    digits = mark[2]
    if digits is None:
        return "$"
    # As in Java the number has as many digits as there is a group for; the rest are digits.
    for length in range(len(digits), 0, -1):
        group = int(digits[:length])
        if group <= match.re.groups and (length == 1 or digits[0] != "0"):
            return (match[group] or "") + digits[length:]
    return f"${digits}"
