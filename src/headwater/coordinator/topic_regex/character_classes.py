"""Named character classes (`\\d`, `[:alpha:]`), restricted to topic names.

Of the scripts of `\\p{...}` only Latin and Common contain characters of topic names. Others are
rejected here, though RE2 has them, since they can only be mistakes.
"""

import string
import unicodedata
from collections.abc import Mapping
from typing import Final

from headwater.coordinator.topic_regex.syntax_tree import ALPHABET

EVERYTHING: Final = frozenset(ALPHABET)
WORD_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_")

PERL: Final[Mapping[str, frozenset[str]]] = {
    "d": frozenset(string.digits),
    "s": frozenset(),
    "w": WORD_CHARACTERS,
}

_PRINTABLE: Final = frozenset(string.digits + string.ascii_letters + string.punctuation)
POSIX: Final[Mapping[str, frozenset[str]]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": EVERYTHING,
    "blank": frozenset(),
    "cntrl": frozenset(),
    "digit": frozenset(string.digits),
    "graph": _PRINTABLE & EVERYTHING,
    "lower": frozenset(string.ascii_lowercase),
    "print": _PRINTABLE & EVERYTHING,
    "punct": frozenset(string.punctuation) & EVERYTHING,
    "space": frozenset(),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD_CHARACTERS,
    "xdigit": frozenset(string.hexdigits),
}

_GENERAL_CATEGORIES: Final = (
    *("C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn"),
    *("N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps"),
    *("S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"),
)


def unicode_class(name: str) -> frozenset[str] | None:
    """Return the characters of a general category or script, None if unknown."""
    if name == "Any":
        return EVERYTHING
    if name == "Latin":
        return POSIX["alpha"]
    if name == "Common":
        return EVERYTHING - POSIX["alpha"]
    if name in _GENERAL_CATEGORIES:
        return frozenset(each for each in ALPHABET if unicodedata.category(each).startswith(name))
    return None


def folded(characters: frozenset[str]) -> frozenset[str]:
    """Return the characters with both cases of each."""
    wanted = frozenset(each.casefold() for each in characters)
    return frozenset(each for each in ALPHABET if each.casefold() in wanted)


def span(low: str, high: str) -> frozenset[str]:
    return frozenset(each for each in ALPHABET if low <= each <= high)
