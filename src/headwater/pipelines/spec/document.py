"""A pipeline file as plain values with line numbers, in any of its languages.

Not every value has a line of its own: `line_of` returns the line of the nearest enclosing value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.common.exceptions import HeadwaterError

# From the outermost key inwards; the elements of a list by their number.
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProblem:
    """Something that is wrong with a pipeline, and where."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class InvalidPipeline(HeadwaterError):
    """A pipeline cannot be run as it is written."""

    def __init__(self, problems: list[PipelineProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says."""

    file: Path
    # Dictionaries, lists, texts, numbers, truth values and nulls.
    value: Any
    lines: Mapping[Place, int]
    # A file in Python: the module, in which steps may be functions.
    module: ModuleType | None = field(default=None, compare=False)

    def line_of(self, place: Place) -> int:
        """The line of a place, or of what is around it."""
        for length in range(len(place), -1, -1):
            line = self.lines.get(place[:length])
            if line is not None:
                return line
        return 1

    def problem(self, place: Place, text: str) -> PipelineProblem:
        return PipelineProblem(file=self.file, line=self.line_of(place), text=text)


def fail_parsing(file: Path, line: int, text: str) -> InvalidPipeline:
    """A file that cannot be read at all."""
    return InvalidPipeline([PipelineProblem(file=file, line=line, text=text)])
