"""The future of a sent table, with a result per batch."""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from headwater.client.producer.record_future import RecordFuture


class TableBatch(NamedTuple):
    """Consecutive rows in one partition.

    The offset is -1 with acks=0.
    """

    topic: str
    partition: int
    base_offset: int
    row_count: int


class TableFuture:
    """The result of sending a table. Thread-safe."""

    __slots__ = ("_batches", "row_count")

    def __init__(self, batches: Sequence[tuple[RecordFuture, int]]) -> None:
        self._batches = batches
        self.row_count = sum(count for _, count in batches)

    def done(self) -> bool:
        return all(first.done() for first, _ in self._batches)

    def result(self, timeout: float | None = None) -> list[TableBatch]:
        """Wait for the acknowledgements; raise if rows failed (others may be written).

        The timeout applies per batch. Without one, `delivery.timeout.ms` is the limit.
        """
        return [self._place(first, count, timeout) for first, count in self._batches]

    def __await__(self) -> Generator[Any, None, list[TableBatch]]:
        for first, _ in self._batches:
            yield from first.__await__()
        return self.result(0)

    @staticmethod
    def _place(first: RecordFuture, count: int, timeout: float | None) -> TableBatch:
        topic, partition, offset, _ = first.result(timeout)
        return TableBatch(topic, partition, offset, count)
