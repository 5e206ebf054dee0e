"""What a connector is: a `Source` that reads Arrow batches, a `Sink` that writes them, or both.

What a reader would get wrong: both are asked again. A batch that failed is read once more between
the same two positions, and must then bring the same rows; a part of a batch is written once more,
and must then be there once. Everything that is exact about a pipeline rests on these two promises,
and `headwater.testing.connector_checks` holds a connector to them.

Both are made anew, from their options, wherever they are needed: in the driver and in every task.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.exactly_once import BatchIdentity

Position = dict[str, Any]
"""How far a source was read, as JSON has it. Empty is the beginning."""

Split = dict[str, Any]
"""Rows that one task reads, as JSON has it."""

Part = BatchIdentity
"""Which part of which batch of which query is written: the same again when it is repeated."""


class Source(ABC):
    """Rows that come from outside."""

    option_names: ClassVar[tuple[str, ...]]
    """All options that there are; others are refused."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = ConnectorOptions(options, self.option_names)

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @abstractmethod
    def latest(self, start: Position) -> Position:
        """How far one can read from a position on, at once; the same if there is nothing new."""

    @abstractmethod
    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """What is after one position, up to another: in parts that can be read for themselves."""

    @abstractmethod
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a part, with the columns of the schema."""


class Sink(ABC):
    """Rows that go outside."""

    option_names: ClassVar[tuple[str, ...]]

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = ConnectorOptions(options, self.option_names)

    @abstractmethod
    def prepare(self, schema: pa.Schema) -> None:
        """Once, before rows with these columns are written. Raises what is wrong with them."""

    @abstractmethod
    def write(self, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        """Write all, or nothing; the answer is how many. What was written before is not again."""


# Options of a connector: texts under names, of which none may be unknown.
class ConnectorOptions:
    """Reads values; whatever is wrong is an `InvalidOption` of one line."""

    def __init__(self, given: Mapping[str, str], names: Sequence[str]) -> None:
        # Spark knows no capitals in options.
        known = {name.lower(): name for name in names}
        self.given = {known.get(name.lower(), name): value for name, value in given.items()}
        for name in self.given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InvalidOption(f"the connector has no option {name}{hint}")

    def get(self, name: str) -> str | None:
        return self.given.get(name) or None

    def required(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise InvalidOption(f"the option {name} is missing")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Names, parted by commas."""
        text = self.get(name) or ""
        return tuple(each.strip() for each in text.split(",") if each.strip())

    def number(self, name: str, default: int) -> int:
        text = self.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < 1:
            raise InvalidOption(f"{name} must be a whole number above 0, not {text}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these; the first if nothing is said."""
        text = self.get(name) or choices[0]
        if text not in choices:
            raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {text}")
        return text
