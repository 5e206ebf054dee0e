"""Arrays: whether every item that was allowed in its place still is.

What a reader would get wrong: the keywords have changed their names between the drafts (`items`
with a list is `prefixItems` since 2020). A schema here has the first items and all others, whatever
they were called.
"""

from headwater.schemas.json_schema.scalars import ComparisonReport, check_bound
from headwater.schemas.json_schema.schema import Anything, Array, Json, Nothing, meant, type_name


def check_arrays(comparing: ComparisonReport, old: Array, new: Array, path: str) -> None:
    for index in range(max(len(old.places), len(new.places))):
        where = f"{path}/items/{index}"
        if index >= len(new.places):
            _check_removed(comparing, old.places[index], new.rest, where)
        elif index >= len(old.places):
            _check_added(comparing, old.rest, new.places[index], where)
        else:
            comparing.check(old.places[index], new.places[index], where)
    _check_rest(comparing, old, new, path)
    _check_contains(comparing, old, new, path)
    check_bound(comparing, "maxItems", old.max_items, new.max_items, path)
    check_bound(comparing, "minItems", old.min_items, new.min_items, path)
    if new.is_unique and not old.is_unique:
        comparing.say("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items could be the same")


def _check_removed(comparing: ComparisonReport, was: Json, rest: Json, where: str) -> None:
    if isinstance(meant(was), Nothing) or comparing.fits(was, rest):
        return
    if isinstance(meant(rest), Nothing):
        comparing.say(
            "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "no item is allowed here any more"
        )
    else:
        comparing.say(
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            where,
            f"it was {_name(was)}; further items must be {_name(rest)}",
        )


def _check_added(comparing: ComparisonReport, rest: Json, new: Json, where: str) -> None:
    if isinstance(meant(rest), Nothing) or comparing.fits(rest, new):
        return
    is_open = isinstance(meant(rest), Anything)
    comparing.say(
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
        if is_open
        else "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        where,
        f"it must be {_name(new)}, and the old schema allowed {_name(rest)} here",
    )


def _check_rest(comparing: ComparisonReport, old: Array, new: Array, path: str) -> None:
    where = f"{path}/{new.rest_keyword}"
    if isinstance(meant(old.rest), Nothing) or isinstance(meant(new.rest), Anything):
        return
    if new.rest_keyword == "items" and not new.places:
        if isinstance(meant(old.rest), Anything):
            comparing.say("SCHEMA_ADDED", where, f"items could be anything, not {_name(new.rest)}")
            return
        comparing.check(old.rest, new.rest, where)
        return
    kind = "UNEVALUATED" if new.rest_keyword.startswith("unevaluated") else "ADDITIONAL"
    if isinstance(meant(new.rest), Nothing):
        comparing.say(f"{kind}_ITEMS_REMOVED", where, "further items were allowed")
    elif isinstance(meant(old.rest), Anything):
        comparing.say(
            f"{kind}_ITEMS_NARROWED",
            where,
            f"further items could be anything, and must be {_name(new.rest)}",
        )
    else:
        comparing.check(old.rest, new.rest, where)


def _check_contains(comparing: ComparisonReport, old: Array, new: Array, path: str) -> None:
    if new.contains is None or (new.min_contains == 0 and new.max_contains is None):
        return
    where = f"{path}/contains"
    if old.contains is None:
        comparing.say("MIN_CONTAINS_ADDED", where, "there was none")
        return
    if new.min_contains > 0:
        comparing.check(old.contains, new.contains, where)
        check_bound(comparing, "minContains", old.min_contains, new.min_contains, path)
    if new.max_contains is not None:
        check_bound(comparing, "maxContains", old.max_contains, new.max_contains, path)
        if not comparing.fits(new.contains, old.contains):
            comparing.say("CONTAINS_EXTENDED", where, "more items count than before")


def _name(schema: Json) -> str:
    return type_name(meant(schema))
