"""Parse escapes and bracket classes of a regular expression.

Results are restricted to the characters of topic names; `\\n` is legal and matches nothing.
"""

import string
from typing import Final

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.topic_regex.character_classes import (
    EVERYTHING,
    PERL,
    POSIX,
    folded,
    span,
    unicode_class,
)
from headwater.coordinator.topic_regex.scanner import Scanner

_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = frozenset(string.octdigits)
_HEX: Final = frozenset(string.hexdigits)
_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_LARGEST_CHARACTER: Final = 0x10FFFF


def read_escape(scan: Scanner) -> frozenset[str]:
    """Read after the backslash, when an assertion such as `\\b` was ruled out."""
    found = _class_behind_backslash(scan)
    return frozenset(_one_character(scan)) & EVERYTHING if found is None else found


def read_class(scan: Scanner, *, ignores_case: bool) -> frozenset[str]:
    """Read after the opening bracket up to the closing one."""
    is_negated = scan.skip("^")
    characters: frozenset[str] = frozenset()
    is_first = True
    while is_first or scan.at_end or scan.peek() != "]":
        if scan.at_end:
            raise InvalidPattern("missing closing bracket")
        is_first = False
        characters |= _class_item(scan)
    scan.take()
    if ignores_case:
        characters = folded(characters)
    characters &= EVERYTHING
    return EVERYTHING - characters if is_negated else characters


def _class_item(scan: Scanner) -> frozenset[str]:
    found = _posix_class(scan)
    if found is not None:
        return found
    if scan.skip("\\"):
        found = _class_behind_backslash(scan)
        if found is not None:
            return found
        low = _one_character(scan)
    else:
        low = scan.take()
    if not scan.is_next("-") or scan.is_next("-]"):
        return frozenset(low)
    scan.take()
    high = _one_character(scan) if scan.skip("\\") else scan.take()
    if high < low:
        raise InvalidPattern("invalid character range")
    # Keep the ends: case folding may map them into the alphabet.
    return span(low, high) | {low, high}


def _posix_class(scan: Scanner) -> frozenset[str] | None:
    if not scan.is_next("[:") or not scan.has_ahead(":]"):
        return None
    scan.skip("[:")
    name = scan.until(":]")
    is_negated = name.startswith("^")
    found = POSIX.get(name.removeprefix("^"))
    if found is None:
        raise InvalidPattern(f"no class of characters is called {name!r}")
    return EVERYTHING - found if is_negated else found


def _class_behind_backslash(scan: Scanner) -> frozenset[str] | None:
    if scan.at_end:
        raise InvalidPattern("trailing backslash")
    letter = scan.peek()
    if letter in ("p", "P"):
        scan.take()
        return _unicode_class(scan, is_negated=letter == "P")
    found = PERL.get(letter.lower())
    if found is None or not letter.isascii():
        return None
    scan.take()
    return found if letter.islower() else EVERYTHING - found


def _unicode_class(scan: Scanner, *, is_negated: bool) -> frozenset[str]:
    name = scan.until("}") if scan.skip("{") else scan.take()
    if name.startswith("^"):
        name, is_negated = name[1:], not is_negated
    found = unicode_class(name)
    if found is None:
        raise InvalidPattern(f"no class of characters is called {name!r}")
    return EVERYTHING - found if is_negated else found


def _one_character(scan: Scanner) -> str:
    """Read an escaped single character."""
    character = scan.take()
    if character == "x":
        return _hexadecimal(scan)
    if character == "0" or (character in "1234567" and _is_octal_next(scan)):
        digits = character
        while len(digits) < 3 and _is_octal_next(scan):
            digits += scan.take()
        return chr(int(digits, 8))
    if character in _CONTROL:
        return _CONTROL[character]
    if character in _ALPHANUMERIC:
        raise InvalidPattern(f"unknown escape \\{character}")
    return character


def _is_octal_next(scan: Scanner) -> bool:
    return not scan.at_end and scan.peek() in _OCTAL


def _hexadecimal(scan: Scanner) -> str:
    digits = scan.until("}") if scan.skip("{") else scan.take() + scan.take()
    if not digits or len(digits) > 8 or not _HEX.issuperset(digits):
        raise InvalidPattern("invalid hexadecimal number after \\x")
    number = int(digits, 16)
    if number > _LARGEST_CHARACTER:
        raise InvalidPattern("character code too large")
    return chr(number)
