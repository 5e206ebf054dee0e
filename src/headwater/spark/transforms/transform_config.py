"""Read the settings of transforms and predicates, under Kafka Connect's names.

A connector has them in its properties, a pipeline file as a list:

    transforms=route
    transforms.route.type=RegexRouter
    transforms.route.regex=shop\\.(.*)
    transforms.route.replacement=$1

Types are short names (`InsertField$Value`) or Kafka's class names. Nothing here needs Spark.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.date_patterns import pattern_problem

TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
_PACKAGES: Final = (
    "org.apache.kafka.connect.transforms.predicates.",
    "org.apache.kafka.connect.transforms.",
)
CAST_TYPES: Final = (
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "boolean",
    "string",
)
_TARGET_TYPES: Final = ("string", "unix", "Date", "Time", "Timestamp")
_PRECISIONS: Final = ("seconds", "milliseconds", "microseconds", "nanoseconds")
# Transforms that change topics.
ROUTERS: Final = ("RegexRouter", "TimestampRouter")
# Constructs of Java's regular expressions that Python's do not have.
_JAVA_ONLY: Final = re.compile(r"\\[pPQEhHRXzGNk]|&&|\(\?<\w|\(\?[a-zU-]*[dU]")

# An option that a problem is about (None: the transform itself), and the problem.
Problem = tuple[str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateSpec:
    """A condition on records."""

    name: str
    kind: str
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSpec:
    """One transform of a chain."""

    name: str
    # Kafka's class name without package and part, such as InsertField.
    kind: str
    # The column that it works on, `key` or `value`; None if it works on the record.
    part: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    predicate: PredicateSpec | None = None
    is_negated: bool = False

    def names(self, option: str) -> tuple[str, ...]:
        """Parse a comma-separated list."""
        return split_names(self.config.get(option, ""))

    def __str__(self) -> str:
        part = f"${self.part.capitalize()}" if self.part else ""
        return f"{self.name} ({self.kind}{part})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    is_required: bool = False
    check: Callable[[str], str | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    options: Mapping[str, _Option] = field(default_factory=dict)
    has_parts: bool = True


def split_names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _one_of(values: Sequence[str]) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        return None if text in values else f"must be one of {', '.join(values)}, not {text}"

    return check


def _names(text: str) -> str | None:
    return None if split_names(text) else "must be a list of names"


def _not_empty(text: str) -> str | None:
    return None if text else "must not be empty"


def _regex(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as error:
        if _JAVA_ONLY.search(text) is None:
            return f"is not a regular expression: {text} ({error})"
    return None


def _renames(text: str) -> str | None:
    for each in split_names(text):
        old, _, new = each.partition(":")
        if not old.strip() or not new.strip() or ":" in new:
            return f"must be a list such as old:new,old2:new2, not {text}"
    return None


def _casts(text: str) -> str | None:
    casts = [each.rpartition(":") for each in split_names(text)]
    if not casts:
        return "must name at least one type"
    for name, _, kind in casts:
        if kind.strip() not in CAST_TYPES:
            return f"must name one of {', '.join(CAST_TYPES)}, not {kind.strip()}"
        if not name and len(casts) > 1:
            return f"cannot cast fields and the whole value: {text}"
    return None


def _date_pattern(text: str) -> str | None:
    return pattern_problem(text) if text else None


# Spark's columns have no default values, so there is none to replace a null with.
_NULLS: Final = {"replace.null.with.default": _Option(check=_one_of(("true", "false")))}
_FIELD: Final = _Option(is_required=True, check=_not_empty)
_FIELDS: Final = _Option(is_required=True, check=_names)

TRANSFORM_KINDS: Final[Mapping[str, _Kind]] = {
    "InsertField": _Kind(
        options={
            "topic.field": _Option(),
            "partition.field": _Option(),
            "offset.field": _Option(),
            "timestamp.field": _Option(),
            "static.field": _Option(),
            "static.value": _Option(),
            **_NULLS,
        }
    ),
    "ReplaceField": _Kind(
        options={
            "include": _Option(),
            "exclude": _Option(),
            "renames": _Option(check=_renames),
            **_NULLS,
        }
    ),
    "MaskField": _Kind(
        options={"fields": _FIELDS, "replacement": _Option(check=_not_empty), **_NULLS}
    ),
    "ValueToKey": _Kind(options={"fields": _FIELDS, **_NULLS}, has_parts=False),
    "HoistField": _Kind(options={"field": _FIELD}),
    "ExtractField": _Kind(
        options={
            "field": _FIELD,
            "field.syntax.version": _Option(check=_one_of(("V1", "V2"))),
            **_NULLS,
        }
    ),
    "Flatten": _Kind(options={"delimiter": _Option()}),
    "Cast": _Kind(options={"spec": _Option(is_required=True, check=_casts), **_NULLS}),
    "TimestampConverter": _Kind(
        options={
            "field": _Option(),
            "target.type": _Option(is_required=True, check=_one_of(_TARGET_TYPES)),
            "format": _Option(check=_date_pattern),
            "unix.precision": _Option(check=_one_of(_PRECISIONS)),
            **_NULLS,
        }
    ),
    "RegexRouter": _Kind(
        options={
            "regex": _Option(is_required=True, check=_regex),
            "replacement": _Option(is_required=True),
        },
        has_parts=False,
    ),
    "TimestampRouter": _Kind(
        options={
            "topic.format": _Option(check=_not_empty),
            "timestamp.format": _Option(check=_date_pattern),
        },
        has_parts=False,
    ),
    "InsertHeader": _Kind(
        options={
            "header": _FIELD,
            "value.literal": _Option(is_required=True),
        },
        has_parts=False,
    ),
    "DropHeaders": _Kind(options={"headers": _FIELDS}, has_parts=False),
    "Filter": _Kind(has_parts=False),
}
PREDICATE_KINDS: Final[Mapping[str, _Kind]] = {
    "TopicNameMatches": _Kind(
        options={"pattern": _Option(is_required=True, check=_regex)}, has_parts=False
    ),
    "HasHeaderKey": _Kind(options={"name": _FIELD}, has_parts=False),
    "RecordIsTombstone": _Kind(has_parts=False),
}
_COMMON: Final = ("type", "predicate", "negate", "name")


def read_predicate(name: str, given: Mapping[str, str]) -> tuple[PredicateSpec, list[Problem]]:
    """Read a predicate as far as possible; return it with all problems."""
    kind = _without_package(given.get("type", ""))
    config = {key: text for key, text in given.items() if key != "type"}
    problems = list(_kind_problems(kind, None, PREDICATE_KINDS, "predicate"))
    if not problems:
        problems += _option_problems(PREDICATE_KINDS[kind], kind, config)
    return PredicateSpec(name=name, kind=kind, config=config), problems


def read_transform(
    name: str, given: Mapping[str, str], predicates: Mapping[str, PredicateSpec]
) -> tuple[TransformSpec, list[Problem]]:
    """Read a transform as far as possible; return it with all problems."""
    kind, _, part = _without_package(given.get("type", "")).partition("$")
    config = {key: text for key, text in given.items() if key not in _COMMON}
    problems = list(_kind_problems(kind, part, TRANSFORM_KINDS, "transform"))
    if not problems:
        problems += _option_problems(TRANSFORM_KINDS[kind], kind, config)
        problems += _combination_problems(kind, config)
    predicate = given.get("predicate")
    if predicate is not None and predicate not in predicates:
        known = f"there are {', '.join(predicates)}" if predicates else "there is none"
        problems.append(("predicate", f"unknown predicate {predicate}; {known}"))
    negate = given.get("negate", "false").lower()
    if negate not in ("true", "false"):
        problems.append(("negate", f"negate must be true or false, not {given['negate']}"))
    return (
        TransformSpec(
            name=name,
            kind=kind,
            part=part.lower() or None,
            config=config,
            predicate=predicates.get(predicate or ""),
            is_negated=negate == "true",
        ),
        problems,
    )


def read_transforms(properties: Mapping[str, str]) -> list[TransformSpec]:
    """Read the transforms of a connector's properties; raise for the first problem."""
    predicates = {}
    for name in _listed(properties, PREDICATES):
        predicate, problems = read_predicate(name, _own(properties, PREDICATES, name))
        _raise_first(f"{PREDICATES}.{name}", problems)
        predicates[name] = predicate
    found = []
    for name in _listed(properties, TRANSFORMS):
        transform, problems = read_transform(name, _own(properties, TRANSFORMS, name), predicates)
        _raise_first(f"{TRANSFORMS}.{name}", problems)
        found.append(transform)
    _refuse_unlisted(properties)
    return found


def is_transform_option(name: str) -> bool:
    """Whether a connector's property belongs to its transforms."""
    lowered = name.lower()
    return any(
        lowered == each or lowered.startswith(f"{each}.") for each in (TRANSFORMS, PREDICATES)
    )


def _listed(properties: Mapping[str, str], what: str) -> tuple[str, ...]:
    names = split_names(properties.get(what, ""))
    if len(set(names)) != len(names):
        raise InvalidOption(f"{what} has a name twice: {properties[what]}")
    return names


def _own(properties: Mapping[str, str], what: str, name: str) -> dict[str, str]:
    start = f"{what}.{name}."
    return {key[len(start) :]: text for key, text in properties.items() if key.startswith(start)}


def _refuse_unlisted(properties: Mapping[str, str]) -> None:
    for what in (TRANSFORMS, PREDICATES):
        starts = tuple(f"{what}.{name}." for name in _listed(properties, what))
        for key in properties:
            if key.startswith(f"{what}.") and not key.startswith(starts or ("\0",)):
                raise InvalidOption(f"{key} is set, but {what} does not list it")


def _raise_first(place: str, problems: list[Problem]) -> None:
    for option, text in problems:
        raise InvalidOption(f"{place}.{option or 'type'}: {text}")


def _without_package(text: str) -> str:
    for each in _PACKAGES:
        text = text.removeprefix(each)
    return text.strip()


def _kind_problems(
    kind: str, part: str | None, kinds: Mapping[str, _Kind], what: str
) -> Iterator[Problem]:
    if not kind:
        yield None, f"a {what} needs a type: one of {', '.join(kinds)}"
    elif kind not in kinds:
        near = difflib.get_close_matches(kind, kinds, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(kinds)}"
        yield "type", f"unknown {what} {kind}{hint}"
    elif part is not None and kinds[kind].has_parts and part not in ("Key", "Value"):
        yield "type", f"{kind} works on keys or values: write {kind}$Key or {kind}$Value"
    elif part and not kinds[kind].has_parts:
        yield "type", f"{kind} has no ${part}: write {kind}"


def _option_problems(kind: _Kind, name: str, config: Mapping[str, str]) -> Iterator[Problem]:
    for option, text in config.items():
        if option not in kind.options:
            near = difflib.get_close_matches(option, kind.options, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield option, f"{name} has no option {option}{hint}"
        elif (reason := kind.options[option].check(text)) is not None:
            yield option, f"{option} {reason}"
    for option, each in kind.options.items():
        if each.is_required and option not in config:
            yield None, f"{name} needs the option {option}"


def _combination_problems(kind: str, config: Mapping[str, str]) -> Iterator[Problem]:
    match kind:
        case "InsertField":
            if ("static.field" in config) is not ("static.value" in config):
                yield None, "static.field and static.value are set together"
            if not any(each.endswith(".field") for each in config):
                yield None, "InsertField inserts nothing: set one of its options"
        case "TimestampConverter":
            if config.get("target.type") == "string" and not config.get("format", "").strip():
                yield None, "TimestampConverter needs a format for strings"
            if config.get("target.type") == "Time":
                yield "target.type", "Spark's columns have no Time: use string, unix or Timestamp"
        case _:
            pass
