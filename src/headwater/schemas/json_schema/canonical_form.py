"""Write JSON Schemas as text. The registry identifies a schema by its text.

`canonical` is what Confluent's registry writes: no whitespace, keys in their original order,
numbers as they were written. `normalized` also sorts keys at every level.

Note: `1.0` and `1` are two texts, hence two schemas, although they accept the same values.
"""

import json
from collections.abc import Hashable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any


def canonical(value: Any) -> str:
    """Write the canonical form; fractions must be `Decimal` to keep their digits."""
    return _written(value, is_sorted=False)


def normalized(value: Any) -> str:
    return _written(value, is_sorted=True)


def value_text(value: Any) -> str:
    """A text that equal values share. In JSON Schema, 1 and 1.0 are equal."""
    return _written(_plain(value), is_sorted=True)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() | Decimal():
            return _shortest(Decimal(value))
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case _:
            return value


def _shortest(value: Decimal) -> Decimal:
    """Remove trailing zeros without rounding."""
    digits = len(value.as_tuple().digits)
    return value.normalize(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX))


class Shapes:
    """Number JSON values: equal values share a number, in any order of keys.

    Values are cached by identity, and kept alive so that their ids are not reused.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, value: Any) -> int:
        known = self._known.get(id(value))
        if known is None:
            known = (value, self._numbers.setdefault(self._key(value), len(self._numbers)))
            self._known[id(value)] = known
        return known[1]

    def _key(self, value: Any) -> Hashable:
        match value:
            case dict():
                return ("{", *sorted((key, self.of(each)) for key, each in value.items()))
            case list():
                return ("[", *(self.of(each) for each in value))
            case _:
                # In Python, True == 1 == 1.0.
                return (type(value).__name__, str(value))


def _written(value: Any, *, is_sorted: bool) -> str:
    match value:
        case dict():
            keys = sorted(value, key=_utf16) if is_sorted else list(value)
            inner = (f"{_text(key)}:{_written(value[key], is_sorted=is_sorted)}" for key in keys)
            return f"{{{','.join(inner)}}}"
        case list():
            return f"[{','.join(_written(each, is_sorted=is_sorted) for each in value)}]"
        case Decimal():
            # Java's decimals have no negative zero.
            return str(abs(value) if value.is_zero() else value)
        case _:
            return _text(value)


def _utf16(key: str) -> bytes:
    """Sort key for Java's order of strings."""
    return key.encode("utf-16-be", "surrogatepass")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
