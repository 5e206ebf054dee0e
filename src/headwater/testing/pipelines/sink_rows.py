"""Rows that a sink got, compared without regard to their order.

A topic has an order within each partition only, and files have none, so `==` compares which rows
there are and how often. `in_order` is a plain list for tests of one partition.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Value = Any


class SinkRow(dict[str, Value]):
    """A row, equal to a dictionary with the same items.

    A row of a topic also has its record's `key`, `headers`, `timestamp`, `partition` and `offset`.
    A tombstone is an empty row.
    """

    __slots__ = ("headers", "is_tombstone", "key", "offset", "partition", "timestamp")

    def __init__(
        self,
        values: Mapping[str, Value],
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
        offset: int | None = None,
        is_tombstone: bool = False,
    ) -> None:
        super().__init__(values)
        self.key = key
        self.headers = dict(headers or {})
        self.timestamp = timestamp
        self.partition = partition
        self.offset = offset
        self.is_tombstone = is_tombstone


class SinkRows(list[SinkRow]):
    """The rows of a sink; equal to any list of the same rows in any order."""

    def __init__(self, rows: Iterable[SinkRow] = (), *, name: str = "rows", new: int = 0) -> None:
        """`new` is the number of rows at the end that the result before did not have."""
        super().__init__(rows)
        self.name = name
        self._new = new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple)):
            return NotImplemented
        return _counted(self) == _counted(other)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    @property
    def new(self) -> "SinkRows":
        """The rows since the result before this one."""
        return SinkRows(self[len(self) - self._new :], name=self.name)

    @property
    def in_order(self) -> list[SinkRow]:
        """A plain list: partition by partition in the order of offsets."""
        return list(self)

    @property
    def keys(self) -> list[str | bytes | None]:
        """The keys of the records, as text where they are UTF-8."""
        return [row.key for row in self]

    def select(self, *columns: str) -> "SinkRows":
        """The same rows with these columns only; a column that a row lacks is None."""
        rows = [_same_record(row, {name: row.get(name) for name in columns}) for row in self]
        return SinkRows(rows, name=self.name, new=self._new)

    def where(self, **values: Value) -> "SinkRows":
        """The rows that have these values."""
        wanted = values.items()
        rows = [row for row in self if all(row.get(name) == value for name, value in wanted)]
        return SinkRows(rows, name=self.name)

    def latest(self) -> dict[str | bytes | None, SinkRow]:
        """Return a changelog's table: each key's latest row, without deleted ones.

        Note: rows of a key are in one partition, so the order of partitions does not matter.
        """
        found: dict[str | bytes | None, SinkRow] = {}
        for row in self:
            if row.is_tombstone:
                found.pop(row.key, None)
            else:
                found[row.key] = row
        return found


def _same_record(row: SinkRow, values: Mapping[str, Value]) -> SinkRow:
    return SinkRow(
        {} if row.is_tombstone else values,
        key=row.key,
        headers=row.headers,
        timestamp=row.timestamp,
        partition=row.partition,
        offset=row.offset,
        is_tombstone=row.is_tombstone,
    )


def _counted(rows: Iterable[object]) -> Counter[object]:
    return Counter(map(hashable, rows))


def hashable(value: object) -> object:
    """A value that is equal to another one exactly if the given values are."""
    match value:
        case Mapping():
            return frozenset((name, hashable(each)) for name, each in value.items())
        case list() | tuple():
            return tuple(map(hashable, value))
        case float() if value != value:
            # Not equal to itself, but a test that expects it means it.
            return "NaN"
        case bytearray():
            return bytes(value)
        case _:
            return value
