"""The future of a table: all its rows at once, and where they went batch by batch."""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from headwater.client.producer.record_future import RecordFuture


class TableBatch(NamedTuple):
    """Rows that lie together: from `base_offset` on in one partition.

    The offset is -1 if nobody was asked to confirm it (acks=0).
    """

    topic: str
    partition: int
    base_offset: int
    row_count: int


class TableFuture:
    """What becomes of the rows of a table. Thread-safe."""

    __slots__ = ("_batches", "row_count")

    def __init__(self, batches: Sequence[tuple[RecordFuture, int]]) -> None:
        self._batches = batches
        self.row_count = sum(count for _, count in batches)

    def done(self) -> bool:
        return all(first.done() for first, _ in self._batches)

    def result(self, timeout: float | None = None) -> list[TableBatch]:
        """Where the rows lie, or raise why some do not; others may have been written then.

        The timeout holds for each batch. Without one `delivery.timeout.ms` bounds the wait.
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
