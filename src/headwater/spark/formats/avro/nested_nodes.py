"""Read Avro records, arrays, maps and unions: of all records at once, or of one.

Items of arrays are read in rounds. A round reads the next item of each record that has one, so
there are as many rounds as the longest array has items. When few records are left they are marked
and read one by one later, so that one long array does not slow down the others.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headwater.records.arrow_values import nulls
from headwater.spark.formats.avro.batch_walk import AnyArray, Longs, Walk, numbers, scatter
from headwater.spark.formats.avro.leaf_nodes import Node
from headwater.spark.formats.avro.single_record import NotAvro, OneRecord

# After this many rounds, a round needs at least this many records to be efficient.
_ROUNDS: Final = 32
_WORTH: Final = 32
_ROUNDS_MAX: Final = 10_000
# Items without bytes: a small record could claim any number of them.
_EMPTY_ITEMS_MAX: Final = 100_000


class DefaultNode:
    """A field that the writer did not have: the default value, without bytes."""

    def __init__(self, kind: pa.DataType, value: Any) -> None:
        self.kind = kind
        self._value = value

    def read(self, walk: Walk) -> AnyArray:
        if self._value is None:
            return nulls(len(walk), self.kind)
        found = pa.array([self._value], self.kind)
        return found.take(numbers(np.zeros(len(walk), np.int64), pa.int64()))

    def skip(self, walk: Walk) -> None:
        pass

    def one(self, record: OneRecord) -> Any:  # noqa: ARG002
        return self._value


class UnreadableNode:
    """A value that the reader's schema cannot hold; its record is unreadable."""

    def __init__(self, kind: pa.DataType, reason: str) -> None:
        self.kind = kind
        self._reason = reason

    def read(self, walk: Walk) -> AnyArray:
        self.skip(walk)
        return nulls(len(walk), self.kind)

    def skip(self, walk: Walk) -> None:
        walk.mark_bad(np.ones(len(walk), np.bool_))

    def one(self, record: OneRecord) -> Any:  # noqa: ARG002
        raise NotAvro(self._reason)


class RecordNode:
    """A record: fields in the writer's order, with their index in the column."""

    def __init__(self, kind: pa.StructType, fields: Sequence[tuple[str, int | None, Node]]) -> None:
        """Fields with their name and index in the column; None for skipped fields."""
        self.kind: pa.DataType = kind
        self._parts = tuple(kind.fields)
        self._fields = tuple(fields)

    def read(self, walk: Walk) -> AnyArray:
        found: dict[int, AnyArray] = {}
        for _, place, node in self._fields:
            if place is None:
                node.skip(walk)
            else:
                found[place] = node.read(walk)
        columns = [found[place] for place in range(len(self._parts))]
        return pa.StructArray.from_arrays(columns, fields=list(self._parts))

    def skip(self, walk: Walk) -> None:
        for _, _, node in self._fields:
            node.skip(walk)

    def one(self, record: OneRecord) -> Any:
        found = {}
        for name, place, node in self._fields:
            try:
                value = node.one(record)
            except NotAvro as error:
                raise error.inside(name) from None
            if place is not None:
                found[self._parts[place].name] = value
        return found


class ArrayNode:
    """Blocks of items, each block with its count; a count of zero ends them."""

    def __init__(self, kind: pa.DataType, item: Node) -> None:
        self.kind = kind
        self._item = item

    def read(self, walk: Walk) -> AnyArray:
        counts, items = _items(walk, self._item)
        return pa.ListArray.from_arrays(_bounds(counts), items, type=self.kind)

    def skip(self, walk: Walk) -> None:
        self.read(walk)

    def one(self, record: OneRecord) -> Any:
        return _one_by_one(record, self._item)


class MapNode:
    """A map: like an array whose items are a string and a value."""

    def __init__(self, kind: Any, key: Node, value: Node) -> None:
        self.kind: pa.DataType = kind
        pair = pa.struct([pa.field("key", key.kind), pa.field("value", value.kind)])
        self._pair = RecordNode(pair, (("key", 0, key), ("value", 1, value)))

    def read(self, walk: Walk) -> AnyArray:
        counts, pairs = _items(walk, self._pair)
        keys, values = pairs.flatten()
        from_arrays: Any = pa.MapArray.from_arrays
        return from_arrays(_bounds(counts), keys, values, type=self.kind)

    def skip(self, walk: Walk) -> None:
        self.read(walk)

    def one(self, record: OneRecord) -> Any:
        pairs = _one_by_one(record, self._pair)
        return [(each["key"], each["value"]) for each in pairs]


class UnionNode:
    """The number of a branch and its value; all branches are read as one type."""

    def __init__(self, kind: pa.DataType, branches: Sequence[Node]) -> None:
        self.kind = kind
        self._branches = tuple(branches)

    def read(self, walk: Walk) -> AnyArray:
        parts = []
        for chosen, part, node in self._parts(walk):
            parts.append((chosen, node.read(part)))
            walk.rejoin(chosen, part)
        return scatter(len(walk), parts, self.kind)

    def skip(self, walk: Walk) -> None:
        for chosen, part, node in self._parts(walk):
            node.skip(part)
            walk.rejoin(chosen, part)

    def one(self, record: OneRecord) -> Any:
        number = record.long()
        if not 0 <= number < len(self._branches):
            raise NotAvro(f"a union of {len(self._branches)} branches has no branch {number}")
        return self._branches[number].one(record)

    def _parts(self, walk: Walk) -> list[tuple[Longs, Walk, Node]]:
        number = walk.long()
        walk.mark_bad((number < 0) | (number >= len(self._branches)))
        found = []
        for branch, node in enumerate(self._branches):
            chosen = np.flatnonzero(number == branch)
            if len(chosen):
                found.append((chosen, walk.part(chosen), node))
        return found


class MemberNode:
    """A branch of a union read as a struct, with its value in one of the columns."""

    def __init__(self, kind: pa.StructType, place: int, node: Node) -> None:
        self.kind: pa.DataType = kind
        self._members = tuple(kind.fields)
        self._place = place
        self._node = node

    def read(self, walk: Walk) -> AnyArray:
        value = self._node.read(walk)
        columns = [
            value if place == self._place else nulls(len(walk), member.type)
            for place, member in enumerate(self._members)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self._members))

    def skip(self, walk: Walk) -> None:
        self._node.skip(walk)

    def one(self, record: OneRecord) -> Any:
        return {self._members[self._place].name: self._node.one(record)}


def _items(walk: Walk, item: Node) -> tuple[Longs, AnyArray]:
    """Read the items of all records; return the counts per record and all items."""
    left = np.zeros(len(walk), np.int64)
    counts = np.zeros(len(walk), np.int64)
    active = np.arange(len(walk))
    owners: list[Longs] = []
    pieces: list[AnyArray] = []
    while True:
        due = active[left[active] == 0]
        if len(due):
            part = walk.part(due)
            left[due] = _block(part)
            walk.rejoin(due, part)
        active = active[(left[active] > 0) & walk.is_good()[active]]
        if not len(active):
            break
        part = walk.part(active)
        is_worth_it = len(active) >= _WORTH and len(owners) < _ROUNDS_MAX
        if len(owners) >= _ROUNDS and not is_worth_it:
            part.mark_bad(np.ones(len(active), np.bool_))
            break
        pieces.append(item.read(part))
        owners.append(active)
        walk.rejoin(active, part)
        left[active] -= 1
        counts[active] += 1
    if not pieces:
        return counts, nulls(0, item.kind)
    order = np.argsort(np.concatenate(owners), kind="stable")
    return counts, pa.concat_arrays(pieces).take(numbers(order, pa.int64()))


def _block(walk: Walk) -> Longs:
    """Read the item count of the next block; a negative one is followed by a size."""
    count = walk.long()
    sized = np.flatnonzero(count < 0)
    if len(sized):
        part = walk.part(sized)
        part.long()
        walk.rejoin(sized, part)
    return np.abs(count)


def _one_by_one(record: OneRecord, item: Node) -> list[Any]:
    found: list[Any] = []
    while count := record.long():
        if count < 0:
            count = -count
            record.long()
        for _ in range(count):
            before = record.at
            try:
                found.append(item.one(record))
            except NotAvro as error:
                raise error.inside(f"[{len(found)}]") from None
            if record.at == before and len(found) > _EMPTY_ITEMS_MAX:
                raise NotAvro(f"there are more than {_EMPTY_ITEMS_MAX} items, all of them empty")
    return found


def _bounds(counts: Longs) -> AnyArray:
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    return numbers(bounds, pa.int32())
