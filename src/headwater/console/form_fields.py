"""What people type into fields: whole numbers, and names with values. Pure.

What a reader would get wrong: a number is looked at before it is made one. Python refuses to read
thousands of digits, and Kafka has four bytes for a partition.
"""

from typing import Final

from headwater.console.console_errors import bad_request

_NUMBER_CHARS_MAX: Final = 18
_INT32_MAX: Final = 2**31 - 1


def whole(text: str, name: str, default: int | None = None) -> int:
    """A whole number, as people type it; the default for nothing."""
    given = text.strip()
    if not given and default is not None:
        return default
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _NUMBER_CHARS_MAX:
        raise bad_request(f"'{name}' is a whole number, and not '{given[:40]}'.")
    return int(given)


def whole_int32(text: str, name: str, default: int | None = None) -> int:
    """A number that Kafka has four bytes for, such as that of a partition."""
    number = whole(text, name, default)
    if abs(number) > _INT32_MAX:
        raise bad_request(f"'{name}' is at most {_INT32_MAX}, and not {number}.")
    return number


def named_lines(text: str, what: str) -> dict[str, str]:
    """`name=value`, a line each."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise bad_request(f"'{what}' has a name=value on each line, and not '{line[:60]}'.")
        found[name.strip()] = value.strip()
    return found
