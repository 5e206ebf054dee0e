"""Texts, numbers and enums: whether the new bounds are no tighter than the old ones."""

import re
from decimal import Context, Decimal, DecimalException
from typing import Final, Protocol

from headwater.schemas.json_schema.schema import Json, Number, Numeric, Text, Values

# Enough for all numbers that people write, and no room for one with a million digits.
_EXACT: Final = Context(prec=1000)


class ComparisonReport(Protocol):
    """What the rules about one kind of schema need of the comparison that they belong to."""

    def check(self, old: Json, new: Json, path: str) -> None: ...

    def fits(self, old: Json, new: Json) -> bool: ...

    def say(self, kind: str, path: str, reason: str) -> None: ...

    def count(self, steps: int) -> None:
        """Note work that grows with the schemas. Raises `Refusal` once it is too much."""


def check_bound(
    comparing: ComparisonReport,
    keyword: str,
    old: Number | None,
    new: Number | None,
    path: str,
) -> None:
    """A `max...` may only grow, a `min...` only shrink; one that was not there is tighter."""
    if new is None or new == old:
        return
    kind = re.sub(r"([A-Z])", r"_\1", keyword).upper()
    is_upper = "max" in keyword.lower()
    if old is None:
        comparing.say(f"{kind}_ADDED", f"{path}/{keyword}", f"there was none, and it is {new}")
    elif (new < old) == is_upper:
        change = "DECREASED" if is_upper else "INCREASED"
        comparing.say(f"{kind}_{change}", f"{path}/{keyword}", f"it was {old} and is {new}")


def check_texts(comparing: ComparisonReport, old: Text, new: Text, path: str) -> None:
    check_bound(comparing, "maxLength", old.max_length, new.max_length, path)
    check_bound(comparing, "minLength", old.min_length, new.min_length, path)
    if new.pattern is None or new.pattern == old.pattern:
        return
    kind = "PATTERN_ADDED" if old.pattern is None else "PATTERN_CHANGED"
    was = "there was none" if old.pattern is None else f"it was {old.pattern!r}"
    comparing.say(kind, f"{path}/pattern", f"{was}, and it is {new.pattern!r}")


def check_numbers(comparing: ComparisonReport, old: Numeric, new: Numeric, path: str) -> None:
    check_bound(comparing, "maximum", old.maximum, new.maximum, path)
    check_bound(comparing, "minimum", old.minimum, new.minimum, path)
    check_bound(comparing, "exclusiveMaximum", old.exclusive_maximum, new.exclusive_maximum, path)
    check_bound(comparing, "exclusiveMinimum", old.exclusive_minimum, new.exclusive_minimum, path)
    _check_multiples(comparing, old.multiple_of, new.multiple_of, f"{path}/multipleOf")
    if new.is_integer and not old.is_integer:
        comparing.say("TYPE_NARROWED", path, "it was number and is integer")


def _check_multiples(
    comparing: ComparisonReport, old: Number | None, new: Number | None, path: str
) -> None:
    if new is None or new == old:
        return
    if old is None:
        comparing.say("MULTIPLE_OF_ADDED", path, f"there was none, and it is {new}")
    elif not _divides(new, old):
        kind = "MULTIPLE_OF_EXPANDED" if _divides(old, new) else "MULTIPLE_OF_CHANGED"
        comparing.say(kind, path, f"it was {old} and is {new}")


def _divides(divisor: Number, of: Number) -> bool:
    try:
        return _EXACT.remainder(Decimal(of), Decimal(divisor)).is_zero()
    except DecimalException:
        return False


def check_values(comparing: ComparisonReport, old: Values, new: Values, path: str) -> None:
    comparing.count(len(old.texts) + len(new.texts))
    missing = [each for each in old.texts if each not in new.texts]
    if missing:
        is_part = all(each in old.texts for each in new.texts)
        comparing.say(
            "ENUM_ARRAY_NARROWED" if is_part else "ENUM_ARRAY_CHANGED",
            f"{path}/enum",
            f"{', '.join(missing[:10])} is no longer among its values",
        )
