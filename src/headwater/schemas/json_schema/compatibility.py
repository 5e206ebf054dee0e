"""Decide whether all valid values of one JSON Schema are valid under another.

Follows the rules of Confluent's registry and uses its names of incompatibilities. Where Confluent's
does not check (`patternProperties`, `propertyNames`, `contains`, `if`, a required name that is not
declared), a change that would break a reader is rejected as well. docs/guides/schema-registry.md
lists the incompatible changes that are accepted.

Note: a pair of schemas that recurs inside itself is assumed to be compatible. If it is not, that is
found where the pair was compared first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headwater.schemas.errors import invalid_schema_of_type
from headwater.schemas.json_schema.arrays import check_arrays
from headwater.schemas.json_schema.descriptions import description
from headwater.schemas.json_schema.objects import check_objects
from headwater.schemas.json_schema.scalars import check_numbers, check_texts, check_values
from headwater.schemas.json_schema.schema import (
    Anything,
    Array,
    Combined,
    Conditional,
    Foreign,
    Json,
    Negated,
    Nothing,
    Numeric,
    Object,
    Plain,
    Target,
    Text,
    Values,
    meant,
    type_name,
)

INCOMPATIBILITIES_MAX: Final = 50
STEPS_MAX: Final = 1_000_000
# Steps for the first comparison of a pair; every further one counts as one step.
_PAIR_STEPS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """An incompatible change, and its path in the new schema."""

    kind: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path}: {self.reason}"

    def described(self, *, reader: str, writer: str) -> str:
        """The message in Confluent's format, with a reason."""
        text = description(self.kind, self.path, reader=reader, writer=writer) or self.reason
        return (
            f"{{errorType:\"{self.kind}\", description:\"{text}', additionalInfo:'{self.reason}'}}"
        )


def narrowed(*, old: Json, new: Json) -> list[Incompatibility]:
    """List what makes values of the old schema invalid under the new one.

    Raises `InvalidSchema` if the schemas are too large to compare.
    """
    comparing = Comparing()
    comparing.check(old, new, "#")
    return comparing.found[:INCOMPATIBILITIES_MAX]


@dataclass(slots=True)
class _SharedState:
    """State that trials share with their comparison."""

    assumed_compatible: set[tuple[int, int]] = field(default_factory=set)
    failed: dict[tuple[int, int], Sequence[Incompatibility]] = field(default_factory=dict)
    """Failed pairs with their first incompatibility and its path within the pair."""
    steps: int = 0


@dataclass(slots=True)
class Comparing:
    """One comparison. Schemas are compared by identity; the caller keeps both alive."""

    found: list[Incompatibility] = field(default_factory=list)
    _is_trial: bool = False
    _shared: _SharedState = field(default_factory=_SharedState)
    _added: list[tuple[int, int]] = field(default_factory=list)

    def check(self, old: Json, new: Json, path: str) -> None:
        """Record what is narrower in the new schema."""
        before, after = meant(old), meant(new)
        # A trial stops at its first incompatibility.
        count_before = len(self.found)
        if count_before >= (1 if self._is_trial else INCOMPATIBILITIES_MAX) or before is after:
            return
        self.count(1)
        pair = (id(before), id(after))
        for each in self._shared.failed.get(pair, ()):
            self.add(each.kind, path + each.path, each.reason)
        if pair in self._shared.failed or pair in self._shared.assumed_compatible:
            return
        self.count(_PAIR_STEPS)
        self._shared.assumed_compatible.add(pair)
        self._added.append(pair)
        self._compare(before, after, path)
        if len(self.found) > count_before:
            # A failure under the assumption that other pairs are compatible is final.
            first = self.found[count_before]
            inside = replace(first, path=first.path.removeprefix(path))
            self._shared.failed[pair] = (inside,)

    def fits(self, old: Json, new: Json) -> bool:
        """Whether nothing is narrower in the new schema; records nothing."""
        return not self.trial(old, new)

    def trial(self, old: Json, new: Json) -> Sequence[Incompatibility]:
        trial = Comparing(_is_trial=True, _shared=self._shared)
        trial.check(old, new, "#")
        if trial.found:
            self._shared.assumed_compatible.difference_update(trial._added)
        else:
            self._added += trial._added
        return trial.found

    def add(self, kind: str, path: str, reason: str) -> None:
        self.found.append(Incompatibility(kind=kind, path=path, reason=reason))

    def count(self, steps: int) -> None:
        self._shared.steps += steps
        if self._shared.steps > STEPS_MAX:
            raise invalid_schema_of_type(
                "JSON", "too many pairs of parts to compare with an earlier version"
            )

    def _compare(self, old: Target, new: Target, path: str) -> None:
        if isinstance(old, Combined) or isinstance(new, Combined):
            self._check_combined(old, new, path)
            return
        match old, new:
            case (Nothing(), _) | (_, Anything()):
                pass
            case (
                (Text(is_typed=False), Text(is_typed=True))
                | (Numeric(is_typed=False), Numeric(is_typed=True))
                | (Object(is_typed=False), Object(is_typed=True))
                | (Array(is_typed=False), Array(is_typed=True))
            ):
                self.add("TYPE_NARROWED", path, f"it could be of any type, not {type_name(new)}")
            case Text(), Text():
                check_texts(self, old, new, path)
            case Numeric(), Numeric():
                check_numbers(self, old, new, path)
            case Values(), Values():
                check_values(self, old, new, path)
            case Object(), Object():
                self.count(len(old.properties) + len(new.properties) + len(new.required))
                check_objects(self, old, new, path)
            case Array(), Array():
                check_arrays(self, old, new, path)
            case Negated(), Negated():
                if not self.fits(new.inner, old.inner):
                    self.add("NOT_TYPE_EXTENDED", f"{path}/not", "it forbids more than before")
            case Conditional(), Conditional():
                self._check_conditions(old, new, path)
            case (Plain(), Plain()) | (Foreign(), Foreign()) if type_name(old) == type_name(new):
                pass
            case _:
                self._report_changed(old, new, path)

    def _check_conditions(self, old: Conditional, new: Conditional, path: str) -> None:
        is_same = self.fits(old.condition, new.condition) and self.fits(
            new.condition, old.condition
        )
        if not is_same:
            self.add("CONDITION_CHANGED", f"{path}/if", "the condition has changed")
            return
        self.check(old.then, new.then, f"{path}/then")
        self.check(old.otherwise, new.otherwise, f"{path}/else")

    def _check_combined(self, old: Target, new: Target, path: str) -> None:
        """Compare where at least one side is `allOf`, `anyOf` or `oneOf`."""
        if isinstance(old, Combined) and len(old.parts) == 1:
            self.check(old.parts[0], new, path)
        elif isinstance(new, Combined) and len(new.parts) == 1:
            self.check(old, new.parts[0], path)
        elif isinstance(old, Nothing) or isinstance(new, Anything) or self._fits_by_parts(old, new):
            return
        elif not isinstance(old, Combined):
            assert isinstance(new, Combined)
            self._report_unfit(old, new, path)
        elif not isinstance(new, Combined):
            self._report_changed(old, new, path)
        else:
            self._match_parts(old, new, path)

    def _fits_by_parts(self, old: Target, new: Target) -> bool:
        """Whether compatibility follows from the parts of one side alone."""
        is_one_of = isinstance(new, Combined) and new.criterion == "oneOf"
        if isinstance(old, Combined):
            if is_one_of and old.criterion != "oneOf":
                # A value that two old parts accept could match two parts of the new oneOf.
                return False
            which = any if old.criterion == "allOf" else all
            if which(self.fits(each, new) for each in old.parts):
                return True
        if isinstance(new, Combined) and not (is_one_of and isinstance(old, Combined)):
            which = all if new.criterion == "allOf" else any
            return which(self.fits(old, each) for each in new.parts)
        return False

    def _match_parts(self, old: Combined, new: Combined, path: str) -> None:
        """Match each part of the smaller side with a distinct part of the other side."""
        if old.criterion != new.criterion and new.criterion != "anyOf":
            self.add(
                "COMBINED_TYPE_CHANGED", path, f"it was {old.criterion} and is {new.criterion}"
            )
            return
        if len(old.parts) > len(new.parts) and old.criterion != "allOf":
            self.add("SUM_TYPE_NARROWED", path, f"{old.criterion} has lost a part")
        elif len(old.parts) < len(new.parts) and new.criterion == "allOf":
            self.add("PRODUCT_TYPE_EXTENDED", path, f"{_of(new)} more than before")
        unmatched = self._unmatched(old, new)
        if unmatched is not None:
            self.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, unmatched)

    def _unmatched(self, old: Combined, new: Combined) -> str | None:
        """Why the parts do not match; None if they do."""
        self.count(len(old.parts) * len(new.parts))
        edges = [[self.fits(before, after) for after in new.parts] for before in old.parts]
        partners = _matching(edges)
        if len(partners) == min(len(old.parts), len(new.parts)):
            return None
        matched = set(partners.values())
        for index, before in enumerate(old.parts):
            if index in matched:
                continue
            for after in new.parts:
                if type(meant(after)) is type(meant(before)):
                    reasons = self.trial(before, after)
                    if reasons:
                        return f"{_part(old, index)} is narrower: {reasons[0]}"
        return f"no part of the new {new.criterion} accepts an old part"

    def _report_unfit(self, old: Target, new: Combined, path: str) -> None:
        """Report what makes a schema incompatible with a new combination of schemas."""
        count_before = len(self.found)
        for each in new.parts:
            if type(meant(each)) is type(old):
                self.check(old, each, path)
        if len(self.found) == count_before:
            self._report_changed(old, new, path)

    def _report_changed(self, old: Target, new: Target, path: str) -> None:
        self.add("TYPE_CHANGED", path, f"it was {type_name(old)} and is {type_name(new)}")


def _of(schema: Combined) -> str:
    return schema.criterion if schema.is_written else "the schema"


def _part(schema: Combined, index: int) -> str:
    if schema.is_written:
        return f"{schema.criterion}/{index}"
    return type_name(meant(schema.parts[index]))


def _matching(edges: list[list[bool]]) -> dict[int, int]:
    """A maximum matching: the old part of each new part."""
    partners: dict[int, int] = {}

    def find_partner(before: int, tried: set[int]) -> bool:
        for after, is_fit in enumerate(edges[before]):
            if not is_fit or after in tried:
                continue
            tried.add(after)
            if after not in partners or find_partner(partners[after], tried):
                partners[after] = before
                return True
        return False

    for before in range(len(edges)):
        find_partner(before, set())
    return partners
