"""Compatibility rules for arrays: allowed items must stay allowed.

Note: the keywords changed between drafts (`items` with a list is `prefixItems` since 2020). The
tree has the schemas of the first items and of all others, whatever the keywords were.
"""

from headwater.schemas.json_schema.scalars import ComparisonReport, check_bound
from headwater.schemas.json_schema.schema import Anything, Array, Json, Nothing, meant, type_name


def check_arrays(report: ComparisonReport, old: Array, new: Array, path: str) -> None:
    for index in range(max(len(old.places), len(new.places))):
        where = f"{path}/items/{index}"
        if index >= len(new.places):
            _check_removed(report, old.places[index], new.rest, where)
        elif index >= len(old.places):
            _check_added(report, old.rest, new.places[index], where)
        else:
            report.check(old.places[index], new.places[index], where)
    _check_rest(report, old, new, path)
    _check_contains(report, old, new, path)
    check_bound(report, "maxItems", old.max_items, new.max_items, path)
    check_bound(report, "minItems", old.min_items, new.min_items, path)
    if new.is_unique and not old.is_unique:
        report.add("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items could be the same")


def _check_removed(report: ComparisonReport, was: Json, rest: Json, where: str) -> None:
    if isinstance(meant(was), Nothing) or report.fits(was, rest):
        return
    if isinstance(meant(rest), Nothing):
        report.add(
            "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "no item is allowed here any more"
        )
    else:
        report.add(
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            where,
            f"it was {_name(was)}; further items must be {_name(rest)}",
        )


def _check_added(report: ComparisonReport, rest: Json, new: Json, where: str) -> None:
    if isinstance(meant(rest), Nothing) or report.fits(rest, new):
        return
    is_open = isinstance(meant(rest), Anything)
    report.add(
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
        if is_open
        else "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        where,
        f"it must be {_name(new)}, and the old schema allowed {_name(rest)} here",
    )


def _check_rest(report: ComparisonReport, old: Array, new: Array, path: str) -> None:
    where = f"{path}/{new.rest_keyword}"
    if isinstance(meant(old.rest), Nothing) or isinstance(meant(new.rest), Anything):
        return
    if new.rest_keyword == "items" and not new.places:
        if isinstance(meant(old.rest), Anything):
            report.add("SCHEMA_ADDED", where, f"items could be anything, not {_name(new.rest)}")
            return
        report.check(old.rest, new.rest, where)
        return
    kind = "UNEVALUATED" if new.rest_keyword.startswith("unevaluated") else "ADDITIONAL"
    if isinstance(meant(new.rest), Nothing):
        report.add(f"{kind}_ITEMS_REMOVED", where, "further items were allowed")
    elif isinstance(meant(old.rest), Anything):
        report.add(
            f"{kind}_ITEMS_NARROWED",
            where,
            f"further items could be anything, and must be {_name(new.rest)}",
        )
    else:
        report.check(old.rest, new.rest, where)


def _check_contains(report: ComparisonReport, old: Array, new: Array, path: str) -> None:
    if new.contains is None or (new.min_contains == 0 and new.max_contains is None):
        return
    where = f"{path}/contains"
    if old.contains is None:
        report.add("MIN_CONTAINS_ADDED", where, "there was none")
        return
    if new.min_contains > 0:
        report.check(old.contains, new.contains, where)
        check_bound(report, "minContains", old.min_contains, new.min_contains, path)
    if new.max_contains is not None:
        check_bound(report, "maxContains", old.max_contains, new.max_contains, path)
        if not report.fits(new.contains, old.contains):
            report.add("CONTAINS_EXTENDED", where, "more items count than before")


def _name(schema: Json) -> str:
    return type_name(meant(schema))
