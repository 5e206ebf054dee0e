"""Compatibility rules for strings, numbers and enums: only wider bounds."""

import re
from decimal import Context, Decimal, DecimalException
from typing import Final, Protocol

from headwater.schemas.json_schema.schema import Json, Number, Numeric, Text, Values

# Enough for realistic numbers; numbers with a million digits would be too slow.
_EXACT: Final = Context(prec=1000)


class ComparisonReport(Protocol):
    """The parts of a comparison that the rules for one type need."""

    def check(self, old: Json, new: Json, path: str) -> None: ...

    def fits(self, old: Json, new: Json) -> bool: ...

    def add(self, kind: str, path: str, reason: str) -> None: ...

    def count(self, steps: int) -> None:
        """Count work that grows with the schemas; raise `InvalidSchema` at the limit."""


def check_bound(
    report: ComparisonReport,
    keyword: str,
    old: Number | None,
    new: Number | None,
    path: str,
) -> None:
    """A `max...` may only increase, a `min...` only decrease, none may be added."""
    if new is None or new == old:
        return
    kind = re.sub(r"([A-Z])", r"_\1", keyword).upper()
    is_upper = "max" in keyword.lower()
    if old is None:
        report.add(f"{kind}_ADDED", f"{path}/{keyword}", f"there was none, and it is {new}")
    elif (new < old) == is_upper:
        change = "DECREASED" if is_upper else "INCREASED"
        report.add(f"{kind}_{change}", f"{path}/{keyword}", f"it was {old} and is {new}")


def check_texts(report: ComparisonReport, old: Text, new: Text, path: str) -> None:
    check_bound(report, "maxLength", old.max_length, new.max_length, path)
    check_bound(report, "minLength", old.min_length, new.min_length, path)
    if new.pattern is None or new.pattern == old.pattern:
        return
    kind = "PATTERN_ADDED" if old.pattern is None else "PATTERN_CHANGED"
    was = "there was none" if old.pattern is None else f"it was {old.pattern!r}"
    report.add(kind, f"{path}/pattern", f"{was}, and it is {new.pattern!r}")


def check_numbers(report: ComparisonReport, old: Numeric, new: Numeric, path: str) -> None:
    check_bound(report, "maximum", old.maximum, new.maximum, path)
    check_bound(report, "minimum", old.minimum, new.minimum, path)
    check_bound(report, "exclusiveMaximum", old.exclusive_maximum, new.exclusive_maximum, path)
    check_bound(report, "exclusiveMinimum", old.exclusive_minimum, new.exclusive_minimum, path)
    _check_multiples(report, old.multiple_of, new.multiple_of, f"{path}/multipleOf")
    if new.is_integer and not old.is_integer:
        report.add("TYPE_NARROWED", path, "it was number and is integer")


def _check_multiples(
    report: ComparisonReport, old: Number | None, new: Number | None, path: str
) -> None:
    if new is None or new == old:
        return
    if old is None:
        report.add("MULTIPLE_OF_ADDED", path, f"there was none, and it is {new}")
    elif not _divides(new, old):
        kind = "MULTIPLE_OF_EXPANDED" if _divides(old, new) else "MULTIPLE_OF_CHANGED"
        report.add(kind, path, f"it was {old} and is {new}")


def _divides(divisor: Number, of: Number) -> bool:
    try:
        return _EXACT.remainder(Decimal(of), Decimal(divisor)).is_zero()
    except DecimalException:
        return False


def check_values(report: ComparisonReport, old: Values, new: Values, path: str) -> None:
    report.count(len(old.texts) + len(new.texts))
    missing = [each for each in old.texts if each not in new.texts]
    if missing:
        is_part = all(each in old.texts for each in new.texts)
        report.add(
            "ENUM_ARRAY_NARROWED" if is_part else "ENUM_ARRAY_CHANGED",
            f"{path}/enum",
            f"{', '.join(missing[:10])} is no longer among its values",
        )
