"""Take typed values by name from one mapping of a pipeline's file.

Problems are collected with their lines, and a harmless value is returned instead of raising, so
that one pass over a file finds all of them.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from headwater.pipelines.spec.document import Document, PipelineProblem, Place
from headwater.pipelines.spec.durations import duration_ms

T = TypeVar("T")


class Section:
    """A mapping in a document."""

    def __init__(self, document: Document, place: Place, problems: list[PipelineProblem]) -> None:
        self._document = document
        self.place = place
        self._problems = problems
        value = document.value
        for each in place:
            value = value[each]
        if not isinstance(value, dict):
            self.add_problem(f"{self._title()} must be a mapping, not {_kind(value)}")
            value = {}
        self._values: dict[str, Any] = value
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def add_problem(self, text: str, *names: str | int) -> None:
        """Add a problem of this section, or of a value in it."""
        self._problems.append(self._document.problem((*self.place, *names), text))

    def names(self) -> list[str]:
        return list(self._values)

    def inner(self, name: str) -> "Section | None":
        """Take a nested mapping; None if it is missing."""
        if name not in self:
            self._taken.add(name)
            return None
        self._taken.add(name)
        return Section(self._document, (*self.place, name), self._problems)

    def inner_list(self, name: str) -> "Iterator[Section]":
        """Take a list of mappings."""
        self._taken.add(name)
        value = self._values.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            self.add_problem(f"{name} must be a list, not {_kind(value)}", name)
            return
        for at in range(len(value)):
            yield Section(self._document, (*self.place, name, at), self._problems)

    def raw(self, name: str) -> Any:
        self._taken.add(name)
        return self._values.get(name)

    def text(self, name: str, *, is_needed: bool = False) -> str | None:
        value = self.raw(name)
        if value is None:
            if is_needed:
                self.add_problem(f"{self._title()} has no {name}")
            return None
        if not isinstance(value, str) or not value.strip():
            self.add_problem(f"{name} must be a string, not {_kind(value)}", name)
            return None
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.add_problem(f"{name} must be true or false, not {_kind(value)}", name)
            return default
        return value

    def number(self, name: str, default: int, low: int) -> int:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            self.add_problem(f"{name} must be a whole number, not {_kind(value)}", name)
            return default
        if value < low:
            self.add_problem(f"{name} must be at least {low}, not {value}", name)
            return default
        return value

    def time_ms(self, name: str, default_ms: int) -> int:
        value = self.raw(name)
        if value is None:
            return default_ms
        found = duration_ms(value) if isinstance(value, str) else None
        if found is None:
            self.add_problem(f"{name} must be a time such as 10s or 5 minutes, not {value!r}", name)
            return default_ms
        return found

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str) or value not in choices:
            self.add_problem(f"{name} must be one of {', '.join(choices)}, not {value!r}", name)
            return default
        return choices[value]

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of strings, or a single string."""
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.add_problem(f"{name} must be a list of names, not {_kind(value)}", name)
            return ()
        return tuple(value)

    def mapping(self, name: str) -> dict[str, str]:
        """Take a mapping of strings."""
        found = self.inner(name)
        return {} if found is None else found.rest()

    def rest(self) -> dict[str, str]:
        """The values not taken yet, as strings: options of a format or connector."""
        left = {}
        for name, value in self._values.items():
            if name not in self._taken and value is not None:
                left[name] = _option(value)
        self._taken |= left.keys()
        return left

    def report_unknown(self, others: Iterable[str] = ()) -> None:
        """Report names that were not taken; `others` are further names to suggest."""
        for name in self._values:
            if name in self._taken:
                continue
            near = difflib.get_close_matches(name, [*self._taken, *others], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.add_problem(f"{self._title()} has no {name}{hint}", name)

    def _title(self) -> str:
        match self.place:
            case ():
                return "a pipeline"
            case (("sources" | "steps") as kind, str(name)):
                return f"the {kind.removesuffix('s')} {name}"
            case ("sinks", int()):
                return "the sink"
            case _:
                return ".".join(map(str, self.place))


def _option(value: Any) -> str:
    """Format an option for Spark: text, comma-separated names, or JSON if nested."""
    match value:
        case bool():
            return str(value).lower()
        case list() if all(isinstance(each, str) for each in value):
            return ",".join(value)
        case dict() | list():
            return json.dumps(value)
        case _:
            return str(value)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return f"{str(value).lower()}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"{value!r}"
        case _:
            return f"{value}"
