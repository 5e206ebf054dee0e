"""A pipeline file as plain values with line numbers, in any of its languages.

Not every value has a line of its own: `line_of` returns the line of the nearest enclosing value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.common.exceptions import HeadwaterError

# Keys from the outermost one inwards; list elements by index.
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProblem:
    """A problem of a pipeline, with its file and line."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class InvalidPipeline(HeadwaterError):
    """The pipeline file has problems."""

    def __init__(self, problems: list[PipelineProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The values of a file, with their lines."""

    file: Path
    # Dictionaries, lists, strings, numbers, booleans and nulls.
    value: Any
    lines: Mapping[Place, int]
    # The module of a Python file, whose functions may be steps.
    module: ModuleType | None = field(default=None, compare=False)

    def line_of(self, place: Place) -> int:
        """Return the line of a place, or of the nearest enclosing one."""
        for length in range(len(place), -1, -1):
            line = self.lines.get(place[:length])
            if line is not None:
                return line
        return 1

    def problem(self, place: Place, text: str) -> PipelineProblem:
        return PipelineProblem(file=self.file, line=self.line_of(place), text=text)


def fail_parsing(file: Path, line: int, text: str) -> InvalidPipeline:
    """Return the error for a file that cannot be read."""
    return InvalidPipeline([PipelineProblem(file=file, line=line, text=text)])
