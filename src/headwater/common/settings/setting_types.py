"""Types of settings: parse a value from Kafka's text and format it.

A parser raises `ValueError` with the reason alone; the caller adds the setting's name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.common.config_types import ConfigType
from headwater.common.settings.password import Password

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
SHORT_MAX = 2**15 - 1

# Python refuses to parse numbers of thousands of digits.
_COUNT_DIGITS = len(str(INT_MAX))
_REPLICA = re.compile(r"\d+:\d+", re.ASCII)

Value = int | float | bool | str | tuple[str, ...] | Password

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class SettingType(Generic[T]):
    """Config type for clients, and the parser."""

    config_type: ConfigType
    parse: Callable[[str], T]

    @property
    def is_secret(self) -> bool:
        """Whether values are hidden, even wrong ones."""
        return self.config_type is ConfigType.PASSWORD


def integer(low: int, high: int = INT_MAX) -> SettingType[int]:
    """Integer. Its config type (short, int, long) follows from the maximum."""
    return SettingType(_integer_type(high), lambda text: _whole_number(text, low, high))


def long(low: int) -> SettingType[int]:
    return integer(low, LONG_MAX)


def short(low: int, high: int) -> SettingType[int]:
    return SettingType(ConfigType.SHORT, lambda text: _whole_number(text, low, high))


def double(low: float, high: float) -> SettingType[float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low:g} and {high:g}")
        return value

    return SettingType(ConfigType.DOUBLE, parse)


def rate() -> SettingType[int]:
    """Bytes per second: an integer here, a double in Kafka ("no limit" is 1.8E308)."""
    number = double(0, float("inf"))
    return SettingType(ConfigType.DOUBLE, lambda text: int(min(number.parse(text), LONG_MAX)))


def boolean() -> SettingType[bool]:
    def parse(text: str) -> bool:
        match text.lower():
            case "true":
                return True
            case "false":
                return False
            case _:
                raise ValueError("must be true or false")

    return SettingType(ConfigType.BOOLEAN, parse)


def one_of(*choices: str) -> SettingType[str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return SettingType(ConfigType.STRING, parse)


def one_class_of(*choices: str) -> SettingType[str]:
    """Kafka class name for which Headwater has a counterpart, or empty."""

    def parse(text: str) -> str:
        if text and text not in choices:
            raise ValueError(f"Java classes cannot be loaded; supported: {choices[0]}")
        return text

    return SettingType(ConfigType.STRING, parse)


def word(*choices: str) -> SettingType[str]:
    """One of the choices, ignoring case."""
    lower = one_of(*choices)
    return SettingType(ConfigType.STRING, lambda text: lower.parse(text.lower()))


def upper_word(*choices: str) -> SettingType[str]:
    """Like `word`, for upper-case choices."""
    upper = one_of(*choices)
    return SettingType(ConfigType.STRING, lambda text: upper.parse(text.upper()))


def list_of(*choices: str) -> SettingType[tuple[str, ...]]:
    """Comma-separated list of choices; may be empty."""

    def parse(text: str) -> tuple[str, ...]:
        items = split_list(text)
        if any(item not in choices for item in items):
            raise ValueError(f"must be a list of {', '.join(choices)}")
        return items

    return SettingType(ConfigType.LIST, parse)


def some_of(*choices: str) -> SettingType[tuple[str, ...]]:
    """Comma-separated list of distinct choices; not empty."""
    any_of = list_of(*choices)

    def parse(text: str) -> tuple[str, ...]:
        items = any_of.parse(text)
        if not items or len(set(items)) < len(items):
            raise ValueError("must have at least one item and no duplicates")
        return items

    return SettingType(ConfigType.LIST, parse)


def names() -> SettingType[tuple[str, ...]]:
    """Comma-separated list of strings; may be empty."""
    return SettingType(ConfigType.LIST, split_list)


def counts_by_name() -> SettingType[tuple[str, ...]]:
    """Comma-separated list of name:count."""

    def parse(text: str) -> tuple[str, ...]:
        pairs = split_list(text)
        for pair in pairs:
            name, _, count = pair.rpartition(":")
            is_count = count.isascii() and count.isdecimal() and len(count) <= _COUNT_DIGITS
            if not (name and is_count):
                raise ValueError(f"must be a list of name:count, not {pair!r}")
        return pairs

    return SettingType(ConfigType.LIST, parse)


def throttled_replicas() -> SettingType[tuple[str, ...]]:
    """Comma-separated list of `partition:broker`, or `*` for all."""

    def parse(text: str) -> tuple[str, ...]:
        items = split_list(text)
        if items != ("*",) and not all(_REPLICA.fullmatch(item) for item in items):
            raise ValueError("must be * or a list of partition:broker")
        return items

    return SettingType(ConfigType.LIST, parse)


def principals() -> SettingType[str]:
    """Semicolon-separated principals (`User:alice`), as names may contain commas."""

    def parse(text: str) -> str:
        for each in split_principals(text):
            kind, colon, name = each.partition(":")
            if not (kind and colon and name):
                raise ValueError(f"must be a list like User:alice;User:bob, not {each!r}")
        return text

    return SettingType(ConfigType.STRING, parse)


def split_principals(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(";") if each.strip())


def text() -> SettingType[str]:
    return SettingType(ConfigType.STRING, str)


def password() -> SettingType[Password]:
    return SettingType(ConfigType.PASSWORD, Password)


def optional(kind: SettingType[T]) -> SettingType[T | None]:
    """Null if not set, otherwise a valid value."""
    return SettingType(kind.config_type, kind.parse)


def split_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def format_value(value: Value | None) -> str | None:
    """Format a value as Kafka does; None for a secret."""
    match value:
        case None | Password():
            return None
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _integer_type(high: int) -> ConfigType:
    if high > INT_MAX:
        return ConfigType.LONG
    return ConfigType.SHORT if high == SHORT_MAX else ConfigType.INT


def _whole_number(text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None
    if not low <= value <= high:
        raise ValueError(f"must be between {low} and {high}")
    return value
