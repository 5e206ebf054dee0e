"""Connector interfaces: a `Source` reads Arrow batches, a `Sink` writes them.

Invariant: both must tolerate repetition. A failed batch is read again between the same two
positions and must return the same rows; a part of a batch is written again and must then exist
once. Exactly-once pipelines rely on both, and `headwater.testing.connector_checks` tests them.

Connectors are created from their options wherever they are needed: in the driver and in every task.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.exactly_once import BatchIdentity

Position = dict[str, Any]
"""How far a source was read, as JSON. Empty is the beginning."""

Split = dict[str, Any]
"""Rows that one task reads, as JSON."""

Part = BatchIdentity
"""The part of a batch of a query that is written; the same when it is repeated."""


class Source(ABC):
    """Rows from an external system."""

    option_names: ClassVar[tuple[str, ...]]
    """All supported options; others are rejected."""

    writes_records: ClassVar[bool] = False
    """Whether rows are records: columns topic, key, value and headers, as sinks for topics have."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = ConnectorOptions(options, self.option_names)

    def check(self) -> None:
        """Raise if the external system is not ready; called before anything starts."""
        self.latest({})

    def topics(self) -> list[str]:
        """The topics of records, for a source that has them."""
        return []

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of the rows."""

    @abstractmethod
    def latest(self, start: Position) -> Position:
        """The position up to which the next batch reads; `start` if there is nothing new."""

    @abstractmethod
    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Split what is between two positions into parts that can be read independently."""

    @abstractmethod
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read the rows of a split, with the columns of the schema."""

    def commit(self, position: Position) -> None:  # noqa: B027
        """Release what is before a position: its batches are written and not read again."""

    def close(self) -> None:  # noqa: B027
        """Close connections."""


class Sink(ABC):
    """Rows to an external system."""

    option_names: ClassVar[tuple[str, ...]]

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = ConnectorOptions(options, self.option_names)

    @property
    def reads_records(self) -> bool:
        """Whether rows are records already, with columns topic, key, value and so on."""
        return False

    @abstractmethod
    def prepare(self, schema: pa.Schema) -> None:
        """Called once before rows with these columns are written; raises if unsuitable."""

    @abstractmethod
    def write(self, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        """Write all batches or none, unless the part is already written; return rows."""


class ConnectorOptions:
    """Options of a connector. Invalid and unknown options raise `InvalidOption`."""

    def __init__(self, given: Mapping[str, str], names: Sequence[str]) -> None:
        # Spark converts option names to lower case.
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
        """Parse a comma-separated list of names."""
        text = self.get(name) or ""
        return tuple(each.strip() for each in text.split(",") if each.strip())

    def number(self, name: str, default: int) -> int:
        text = self.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < 1:
            raise InvalidOption(f"{name} must be a positive integer, not {text}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of several values; the first one by default."""
        text = self.get(name) or choices[0]
        if text not in choices:
            raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {text}")
        return text
