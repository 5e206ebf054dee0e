"""Objects: whether a property that was allowed still is, named or not.

What a reader would get wrong: in an open object (nothing said of further properties) a property
that is not named may be there all the same, with any value. So to name one is to forbid other
values of it; only a closed object may get new properties, and only an open one may lose some.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from headwater.schemas.json_schema.scalars import ComparisonReport, check_bound
from headwater.schemas.json_schema.schema import (
    ANYTHING,
    Anything,
    Json,
    Nothing,
    Object,
    meant,
    type_name,
)

_PATTERNS_MAX: Final = 200


def check_objects(comparing: ComparisonReport, old: Object, new: Object, path: str) -> None:
    # What can be told at once comes first: a trial that has failed looks no deeper.
    check_bound(comparing, "maxProperties", old.max_properties, new.max_properties, path)
    check_bound(comparing, "minProperties", old.min_properties, new.min_properties, path)
    _check_required(comparing, old, new, path)
    for name in new.properties:
        if name not in old.properties:
            _check_added(comparing, old, new, name, f"{path}/properties/{name}")
    for name, was in old.properties.items():
        where = f"{path}/properties/{name}"
        if name in new.properties:
            comparing.check(was.schema, new.properties[name].schema, where)
        else:
            _check_removed(comparing, was.schema, new, name, where)
    _check_patterns(comparing, old, new, path)
    _check_rest(comparing, old.rest, new, path)
    _check_names(comparing, old.names, new.names, path)
    _check_dependencies(comparing, old, new, f"{path}/dependencies")


def _check_removed(
    comparing: ComparisonReport, was: Json, new: Object, name: str, where: str
) -> None:
    comparing.count(len(new.patterns))
    if isinstance(meant(was), Nothing):
        return
    for each in _demands(new, name):
        if isinstance(meant(each), Nothing):
            comparing.say(
                "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
                where,
                "it is gone, and the schema allows no properties that it does not name",
            )
        elif not comparing.fits(was, each):
            comparing.say(
                "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                where,
                f"it is gone, and was {_name(was)}; further properties must be {_name(each)}",
            )


def _check_added(
    comparing: ComparisonReport, old: Object, new: Object, name: str, where: str
) -> None:
    comparing.count(len(old.patterns))
    schema = new.properties[name].schema
    promises = _promises(old, name)
    if any(comparing.fits(each, schema) for each in promises):
        return
    if not all(isinstance(meant(each), Anything) for each in promises):
        comparing.say(
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            where,
            f"it is new and must be {_name(schema)}; the old schema allowed others here",
        )
        return
    is_required = name in new.required and name not in old.required
    default = "_WITH_DEFAULT" if new.properties[name].has_default else ""
    kind = f"REQUIRED_PROPERTY{default}" if is_required else "OPTIONAL_PROPERTY"
    comparing.say(
        f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL",
        where,
        f"it is new and must be {_name(schema)}; the old schema, which is open, allowed anything "
        "here",
    )


def _check_required(comparing: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for name in new.required:
        declared = new.properties.get(name)
        # Readers fill in a default, so what has one may become required. Confluent does this.
        if name in old.required or (declared is not None and declared.has_default):
            continue
        if declared is not None and name not in old.properties:
            comparing.count(len(old.patterns))
            is_open = all(isinstance(meant(each), Anything) for each in _promises(old, name))
            kind = "OPEN" if is_open else "UNOPEN"
            if is_open and not isinstance(meant(declared.schema), Anything):
                continue  # Said already.
            comparing.say(
                f"REQUIRED_PROPERTY_ADDED_TO_{kind}_CONTENT_MODEL",
                f"{path}/properties/{name}",
                "it is new and required, and has no default",
            )
        else:
            comparing.say(
                "REQUIRED_ATTRIBUTE_ADDED",
                f"{path}/required/{name}",
                "it is required now, and has no default",
            )


def _check_patterns(comparing: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for pattern, schema in new.patterns.items():
        where = f"{path}/patternProperties/{pattern}"
        if pattern in old.patterns:
            comparing.check(old.patterns[pattern], schema, where)
            continue
        # What had this name before, whatever allowed it.
        comparing.count(len(old.properties) + len(old.patterns))
        named = [
            each.schema
            for name, each in old.properties.items()
            if matches(pattern, name) is not False
        ]
        for each in (*named, *old.patterns.values(), old.rest):
            if not comparing.fits(each, schema):
                comparing.say(
                    "PATTERN_PROPERTY_ADDED",
                    where,
                    f"the old schema allowed {_name(each)} under such names",
                )
                break
    for pattern, was in old.patterns.items():
        if pattern not in new.patterns and not comparing.fits(was, new.rest):
            comparing.say(
                "PATTERN_PROPERTY_REMOVED",
                f"{path}/patternProperties/{pattern}",
                f"it was {_name(was)}; further properties must be {_name(new.rest)}",
            )


def _check_rest(comparing: ComparisonReport, old: Json, new: Object, path: str) -> None:
    where = f"{path}/{new.rest_keyword}"
    kind = "UNEVALUATED" if new.rest_keyword.startswith("unevaluated") else "ADDITIONAL"
    if isinstance(meant(old), Nothing) or isinstance(meant(new.rest), Anything):
        return
    if isinstance(meant(new.rest), Nothing):
        comparing.say(f"{kind}_PROPERTIES_REMOVED", where, "further properties were allowed")
    elif isinstance(meant(old), Anything):
        comparing.say(
            f"{kind}_PROPERTIES_NARROWED",
            where,
            f"further properties could be anything, and must be {_name(new.rest)}",
        )
    else:
        comparing.check(old, new.rest, where)


def _check_names(comparing: ComparisonReport, old: Json, new: Json, path: str) -> None:
    where = f"{path}/propertyNames"
    if isinstance(meant(old), Anything) and not isinstance(meant(new), Anything):
        comparing.say("SCHEMA_ADDED", where, "any name was allowed")
    else:
        comparing.check(old, new, where)


def _check_dependencies(comparing: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for name, needed in new.dependent_names.items():
        before = old.dependent_names.get(name)
        missing = [each for each in needed if each not in (before or {})]
        if not missing:
            continue
        if before is None:
            kind = "ADDED"
        else:
            kind = "EXTENDED" if all(each in needed for each in before) else "CHANGED"
        comparing.say(
            f"DEPENDENCY_ARRAY_{kind}",
            f"{path}/{name}",
            f"with {name} there must now be {', '.join(missing)}",
        )
    for name, schema in new.dependent_schemas.items():
        if name in old.dependent_schemas:
            comparing.check(old.dependent_schemas[name], schema, f"{path}/{name}")
        elif not isinstance(meant(schema), Anything):
            comparing.say("DEPENDENCY_SCHEMA_ADDED", f"{path}/{name}", "there was none")


def _demands(of: Object, name: str) -> list[Json]:
    """All that a property must be which the schema does not name; more rather than less."""
    told = _told(of.patterns, name)
    found = [of.patterns[pattern] for pattern, is_match in told.items() if is_match is not False]
    return found if True in told.values() else [*found, of.rest]


def _promises(of: Object, name: str) -> list[Json]:
    """All that a property certainly is which the schema does not name; less rather than more."""
    told = _told(of.patterns, name)
    found = [of.patterns[pattern] for pattern, is_match in told.items() if is_match]
    if found:
        return found
    return [ANYTHING] if None in told.values() else [of.rest]


def _told(patterns: Mapping[str, Json], name: str) -> dict[str, bool | None]:
    if len(patterns) > _PATTERNS_MAX:
        # Each would be tried with each name, so it is left open which of them match.
        return dict.fromkeys(patterns)
    return {pattern: matches(pattern, name) for pattern in patterns}


def _name(schema: Json) -> str:
    return type_name(meant(schema))


_PATTERN_CHARS_MAX: Final = 200


_NAME_CHARS_MAX: Final = 100


_REPETITIONS_MAX: Final = 2


_CHOICES_MAX: Final = 8


# What stands for itself: an escaped character, a class, the beginning of a group of some kind.
_OPAQUE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[:=!]", re.DOTALL)


_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")


# Whether a name matches a pattern of `patternProperties`, as far as that can be told cheaply.
#
# What a reader would get wrong: "cannot tell" is an answer. Patterns come from whoever may
# register schemas, and a short one can keep Python's matcher busy for years; so only those are
# tried that cannot branch much. Who asks must be right in either case.
def matches(pattern: str, name: str) -> bool | None:
    """None if it cannot be told."""
    if len(name) > _NAME_CHARS_MAX:
        return None
    found = _compiled(pattern)
    return None if found is None else found.search(name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _PATTERN_CHARS_MAX or not _is_tame(pattern):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        # Other languages have patterns that Python has not.
        return None


def _is_tame(pattern: str) -> bool:
    bare = _OPAQUE.sub(lambda found: "(" if found[0].startswith("(") else "x", pattern)
    repetitions = sum(bare.count(each) for each in "*+?{")
    return (
        repetitions <= _REPETITIONS_MAX
        and bare.count("|") <= _CHOICES_MAX
        and not _REPEATED_GROUP.search(bare)
        and not re.search(r"\\\d", pattern)
    )
