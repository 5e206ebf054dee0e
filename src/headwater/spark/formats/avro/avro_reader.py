"""Read a column of Avro records, each with the id of its schema, as one type.

    +------+----------------------+---------------------
    | 0x00 | the schema's id, int | the value in Avro
    +------+----------------------+---------------------
      1 byte  4 bytes, big-endian

Note: records whose schema the registry does not have are unreadable, like damaged ones. A registry
that does not answer is a different error and says nothing about a record.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headwater.schemas.avro.resolved_schema import Schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.batch_walk import AnyArray, Batch, Longs, numbers, scatter
from headwater.spark.formats.avro.column_types import column_type
from headwater.spark.formats.avro.leaf_nodes import Node
from headwater.spark.formats.avro.schema_resolution import resolve
from headwater.spark.formats.avro.single_record import NotAvro, OneRecord

PREFIX_BYTES: Final = 5
MAGIC: Final = 0
_SCHEMAS_MAX: Final = 1000

# Returns the schema with an id; None if it does not exist.
WriterOf = Callable[[int], Schema | None]


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """Values, null where unreadable, and the reasons by row number."""

    values: AnyArray
    unreadable: dict[int, str]


class AvroReader:
    """Reads columns with the reader's schema; caches writers' schemas."""

    def __init__(self, reader: Schema, writer_of: WriterOf) -> None:
        self.kind = column_type(reader)
        self._reader = reader
        self._writer_of = writer_of
        self._nodes: OrderedDict[int, Node | str] = OrderedDict()

    def read(self, values: AnyArray) -> ReadColumn:
        """Read a binary column; nulls stay null."""
        unreadable: dict[int, str] = {}
        parts: list[tuple[Longs, AnyArray]] = []
        for schema_id, rows in _by_schema(values, unreadable):
            node = self._node(schema_id)
            if isinstance(node, str):
                unreadable.update(dict.fromkeys(rows.tolist(), node))
                continue
            chosen = values if len(rows) == len(values) else values.take(numbers(rows, pa.int64()))
            found, reasons = _read(chosen, node, schema_id)
            parts.append((rows, found))
            unreadable.update({int(rows[row]): reason for row, reason in reasons.items()})
        return ReadColumn(scatter(len(values), parts, self.kind), unreadable)

    def _node(self, schema_id: int) -> Node | str:
        """Return the node that reads records of a schema, or why they cannot be read."""
        known = self._nodes.get(schema_id)
        if known is not None:
            self._nodes.move_to_end(schema_id)
            return known
        found = self._resolved(schema_id)
        self._nodes[schema_id] = found
        if len(self._nodes) > _SCHEMAS_MAX:
            self._nodes.popitem(last=False)
        return found

    def _resolved(self, schema_id: int) -> Node | str:
        try:
            writer = self._writer_of(schema_id)
            if writer is None:
                return f"the registry has no schema {schema_id}"
            return resolve(writer, self._reader)
        except UnsupportedSchema as error:
            return f"schema {schema_id} cannot be read as the reader's schema: {error}"


def _by_schema(values: AnyArray, unreadable: dict[int, str]) -> list[tuple[int, Longs]]:
    """Group rows by schema; rows without one are unreadable unless null."""
    _, offsets, raw = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    start = bounds[:-1].astype(np.int64)
    is_there = np.ones(len(values), np.bool_)
    if values.null_count:
        is_there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    is_long_enough = bounds[1:] - bounds[:-1] >= PREFIX_BYTES
    data = np.frombuffer(b"" if raw is None else raw, np.uint8)
    rows = np.flatnonzero(is_there & is_long_enough)
    has_magic = data[start[rows]] == MAGIC
    reason = "it does not begin with 0 and the id of a schema"
    unreadable.update(dict.fromkeys(np.flatnonzero(is_there & ~is_long_enough).tolist(), reason))
    unreadable.update(dict.fromkeys(rows[~has_magic].tolist(), reason))
    rows = rows[has_magic]
    prefixes = data[start[rows][:, np.newaxis] + np.arange(1, PREFIX_BYTES)]
    ids = prefixes.view(">i4")[:, 0]
    first = ids[:1]
    if bool((ids == first).all()):
        return [(int(first[0]), rows)] if len(rows) else []
    return [(int(each), rows[ids == each]) for each in np.unique(ids)]


def _read(values: AnyArray, node: Node, schema_id: int) -> tuple[AnyArray, dict[int, str]]:
    batch = Batch(values)
    walk = batch.walk(PREFIX_BYTES)
    found = node.read(walk)
    walk.mark_bad(walk.at != walk.ends)
    if not batch.is_bad.any():
        return found, {}
    good, bad = np.flatnonzero(~batch.is_bad), np.flatnonzero(batch.is_bad)
    reasons: dict[int, str] = {}
    parts = [(good, found.take(numbers(good, pa.int64())))]
    for row in bad.tolist():
        try:
            value = _one(values[row].as_py(), node)
        except NotAvro as error:
            reasons[row] = f"{error} (schema {schema_id})"
        else:
            parts.append((np.array([row]), value))
    return scatter(len(values), parts, node.kind), reasons


def _one(raw: bytes, node: Node) -> AnyArray:
    record = OneRecord(raw, PREFIX_BYTES)
    value = node.one(record)
    if record.at != len(raw):
        raise NotAvro(f"it is {len(raw) - record.at} bytes longer than its schema says")
    array: Any = pa.array
    try:
        return array([value], node.kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise NotAvro(str(error).splitlines()[0]) from None
