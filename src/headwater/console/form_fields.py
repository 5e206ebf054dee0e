"""Parse form fields: integers, and lines of `name=value`. Pure.

Note: a number's length is checked before it is converted. Python limits the digits that `int`
accepts, and Kafka's partition numbers are 32-bit.
"""

from typing import Final

from headwater.console.console_errors import bad_request

_NUMBER_CHARS_MAX: Final = 18
_INT32_MAX: Final = 2**31 - 1


def whole(text: str, name: str, default: int | None = None) -> int:
    """Parse an integer; the default if the field is empty."""
    given = text.strip()
    if not given and default is not None:
        return default
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _NUMBER_CHARS_MAX:
        raise bad_request(f"'{name}' must be an integer, not '{given[:40]}'.")
    return int(given)


def whole_int32(text: str, name: str, default: int | None = None) -> int:
    """Parse a 32-bit integer, such as a partition number."""
    number = whole(text, name, default)
    if abs(number) > _INT32_MAX:
        raise bad_request(f"'{name}' must be at most {_INT32_MAX}, not {number}.")
    return number


def named_lines(text: str, what: str) -> dict[str, str]:
    """Parse lines of `name=value`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise bad_request(f"'{what}' must have name=value on each line, not '{line[:60]}'.")
        found[name.strip()] = value.strip()
    return found
