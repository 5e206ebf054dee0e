"""Compatibility rules for objects: allowed properties must stay allowed.

Note: in an open object (`additionalProperties` not restricted), an undeclared property may be
present with any value, so declaring it forbids other values. Only a closed object may add
properties, and only an open one may remove some.
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


def check_objects(report: ComparisonReport, old: Object, new: Object, path: str) -> None:
    # Cheap checks first: a trial stops at its first incompatibility.
    check_bound(report, "maxProperties", old.max_properties, new.max_properties, path)
    check_bound(report, "minProperties", old.min_properties, new.min_properties, path)
    _check_required(report, old, new, path)
    for name in new.properties:
        if name not in old.properties:
            _check_added(report, old, new, name, f"{path}/properties/{name}")
    for name, was in old.properties.items():
        where = f"{path}/properties/{name}"
        if name in new.properties:
            report.check(was.schema, new.properties[name].schema, where)
        else:
            _check_removed(report, was.schema, new, name, where)
    _check_patterns(report, old, new, path)
    _check_rest(report, old.rest, new, path)
    _check_names(report, old.names, new.names, path)
    _check_dependencies(report, old, new, f"{path}/dependencies")


def _check_removed(report: ComparisonReport, was: Json, new: Object, name: str, where: str) -> None:
    report.count(len(new.patterns))
    if isinstance(meant(was), Nothing):
        return
    for each in _demands(new, name):
        if isinstance(meant(each), Nothing):
            report.add(
                "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
                where,
                "it was removed, and the schema allows no undeclared properties",
            )
        elif not report.fits(was, each):
            report.add(
                "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                where,
                f"it was removed, and was {_name(was)}; further properties must be {_name(each)}",
            )


def _check_added(report: ComparisonReport, old: Object, new: Object, name: str, where: str) -> None:
    report.count(len(old.patterns))
    schema = new.properties[name].schema
    promises = _promises(old, name)
    if any(report.fits(each, schema) for each in promises):
        return
    if not all(isinstance(meant(each), Anything) for each in promises):
        report.add(
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            where,
            f"it is new and must be {_name(schema)}; the old schema allowed others here",
        )
        return
    is_required = name in new.required and name not in old.required
    default = "_WITH_DEFAULT" if new.properties[name].has_default else ""
    kind = f"REQUIRED_PROPERTY{default}" if is_required else "OPTIONAL_PROPERTY"
    report.add(
        f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL",
        where,
        f"it is new and must be {_name(schema)}; the old schema, which is open, allowed anything "
        "here",
    )


def _check_required(report: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for name in new.required:
        declared = new.properties.get(name)
        # Readers fill in defaults, so a property with one may become required, as in Confluent's.
        if name in old.required or (declared is not None and declared.has_default):
            continue
        if declared is not None and name not in old.properties:
            report.count(len(old.patterns))
            is_open = all(isinstance(meant(each), Anything) for each in _promises(old, name))
            kind = "OPEN" if is_open else "UNOPEN"
            if is_open and not isinstance(meant(declared.schema), Anything):
                continue  # Already reported.
            report.add(
                f"REQUIRED_PROPERTY_ADDED_TO_{kind}_CONTENT_MODEL",
                f"{path}/properties/{name}",
                "it is new and required, and has no default",
            )
        else:
            report.add(
                "REQUIRED_ATTRIBUTE_ADDED",
                f"{path}/required/{name}",
                "it is required now, and has no default",
            )


def _check_patterns(report: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for pattern, schema in new.patterns.items():
        where = f"{path}/patternProperties/{pattern}"
        if pattern in old.patterns:
            report.check(old.patterns[pattern], schema, where)
            continue
        # Every old schema that allowed properties with such names.
        report.count(len(old.properties) + len(old.patterns))
        named = [
            each.schema
            for name, each in old.properties.items()
            if matches(pattern, name) is not False
        ]
        for each in (*named, *old.patterns.values(), old.rest):
            if not report.fits(each, schema):
                report.add(
                    "PATTERN_PROPERTY_ADDED",
                    where,
                    f"the old schema allowed {_name(each)} under such names",
                )
                break
    for pattern, was in old.patterns.items():
        if pattern not in new.patterns and not report.fits(was, new.rest):
            report.add(
                "PATTERN_PROPERTY_REMOVED",
                f"{path}/patternProperties/{pattern}",
                f"it was {_name(was)}; further properties must be {_name(new.rest)}",
            )


def _check_rest(report: ComparisonReport, old: Json, new: Object, path: str) -> None:
    where = f"{path}/{new.rest_keyword}"
    kind = "UNEVALUATED" if new.rest_keyword.startswith("unevaluated") else "ADDITIONAL"
    if isinstance(meant(old), Nothing) or isinstance(meant(new.rest), Anything):
        return
    if isinstance(meant(new.rest), Nothing):
        report.add(f"{kind}_PROPERTIES_REMOVED", where, "further properties were allowed")
    elif isinstance(meant(old), Anything):
        report.add(
            f"{kind}_PROPERTIES_NARROWED",
            where,
            f"further properties could be anything, and must be {_name(new.rest)}",
        )
    else:
        report.check(old, new.rest, where)


def _check_names(report: ComparisonReport, old: Json, new: Json, path: str) -> None:
    where = f"{path}/propertyNames"
    if isinstance(meant(old), Anything) and not isinstance(meant(new), Anything):
        report.add("SCHEMA_ADDED", where, "any name was allowed")
    else:
        report.check(old, new, where)


def _check_dependencies(report: ComparisonReport, old: Object, new: Object, path: str) -> None:
    for name, needed in new.dependent_names.items():
        before = old.dependent_names.get(name)
        missing = [each for each in needed if each not in (before or {})]
        if not missing:
            continue
        if before is None:
            kind = "ADDED"
        else:
            kind = "EXTENDED" if all(each in needed for each in before) else "CHANGED"
        report.add(
            f"DEPENDENCY_ARRAY_{kind}",
            f"{path}/{name}",
            f"with {name} there must now be {', '.join(missing)}",
        )
    for name, schema in new.dependent_schemas.items():
        if name in old.dependent_schemas:
            report.check(old.dependent_schemas[name], schema, f"{path}/{name}")
        elif not isinstance(meant(schema), Anything):
            report.add("DEPENDENCY_SCHEMA_ADDED", f"{path}/{name}", "there was none")


def _demands(of: Object, name: str) -> list[Json]:
    """All schemas that may apply to an undeclared property (an over-approximation)."""
    matches_by_pattern = _pattern_matches(of.patterns, name)
    found = [
        of.patterns[pattern]
        for pattern, is_match in matches_by_pattern.items()
        if is_match is not False
    ]
    return found if True in matches_by_pattern.values() else [*found, of.rest]


def _promises(of: Object, name: str) -> list[Json]:
    """Schemas that certainly apply to an undeclared property (not all of them)."""
    matches_by_pattern = _pattern_matches(of.patterns, name)
    found = [of.patterns[pattern] for pattern, is_match in matches_by_pattern.items() if is_match]
    if found:
        return found
    return [ANYTHING] if None in matches_by_pattern.values() else [of.rest]


def _pattern_matches(patterns: Mapping[str, Json], name: str) -> dict[str, bool | None]:
    if len(patterns) > _PATTERNS_MAX:
        # Matching every pattern with every name would be too slow, so the matches are unknown.
        return dict.fromkeys(patterns)
    return {pattern: matches(pattern, name) for pattern in patterns}


def _name(schema: Json) -> str:
    return type_name(meant(schema))


_PATTERN_CHARS_MAX: Final = 200


_NAME_CHARS_MAX: Final = 100


_REPETITIONS_MAX: Final = 2


_CHOICES_MAX: Final = 8


# Parts to ignore when counting operators: escaped characters, classes, starts of special groups.
_OPAQUE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[:=!]", re.DOTALL)


_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")


def matches(pattern: str, name: str) -> bool | None:
    """Whether a name matches a `patternProperties` pattern; None if unknown.

    Patterns are untrusted, and backtracking can take exponential time, so only patterns with few
    repetitions and alternatives are evaluated. Callers must be correct if the result is None.
    """
    if len(name) > _NAME_CHARS_MAX:
        return None
    found = _compiled(pattern)
    return None if found is None else found.search(name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _PATTERN_CHARS_MAX or not _is_cheap(pattern):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        # Valid in other regex dialects, but not in Python's.
        return None


def _is_cheap(pattern: str) -> bool:
    bare = _OPAQUE.sub(lambda found: "(" if found[0].startswith("(") else "x", pattern)
    repetitions = sum(bare.count(each) for each in "*+?{")
    return (
        repetitions <= _REPETITIONS_MAX
        and bare.count("|") <= _CHOICES_MAX
        and not _REPEATED_GROUP.search(bare)
        and not re.search(r"\\\d", pattern)
    )
