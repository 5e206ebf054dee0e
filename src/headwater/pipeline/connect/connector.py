"""What a connector is: a `Source` that reads Arrow batches, a `Sink` that writes them, or both.

What a reader would get wrong: both are asked again. A batch that failed is read once more between
the same two positions, and must then bring the same rows; a part of a batch is written once more,
and must then be there once. Everything that is exact about a pipeline rests on these two promises,
and `headwater.testing.connector_checks` holds a connector to them.

Both are made anew, from their options, wherever they are needed: in the driver and in every task.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from headwater.pipeline.batch_identity import BatchIdentity
from headwater.pipeline.connect.connector_options import ConnectorOptions

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
