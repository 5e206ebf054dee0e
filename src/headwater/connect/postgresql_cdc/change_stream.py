"""Copy the changes of a replication slot, from one position to the next.

The connection stays open from one call to the next, so that PostgreSQL decodes its log once. A call
that continues elsewhere opens it again; the changes between two positions are always the same.

A transaction that is larger than the limits is copied in parts, each with a position inside the
transaction. Nothing is kept in memory but the current message: PostgreSQL spills transactions that
exceed `logical_decoding_work_mem` to its own disk and sends them after their commit.
"""

import json
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from headwater.connect.postgresql_cdc.cdc_position import CdcPosition, SnapshotRange
from headwater.connect.postgresql_cdc.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Lsn,
    Relation,
    Truncate,
    Update,
    decode_message,
    format_lsn,
    parse_lsn,
)
from headwater.connect.postgresql_cdc.replication_slot import (
    SlotLost,
    TableName,
    advance_slot,
    key_is_after,
    query,
    slot_status,
    sql_connection,
)
from headwater.connect.postgresql_cdc.replication_stream import ReplicationStream
from headwater.connect.postgresql_cdc.row_changes import TableKeys

_OID: Final = struct.Struct(">I")
_BEGIN, _COMMIT, _RELATION, _TRUNCATE = (ord(each) for each in "BCRT")
_ROW_KINDS: Final = frozenset(ord(each) for each in "IUD")
# Not of pgoutput, which has no message of this kind: SQL names of a relation's types, as JSON.
TYPES_MESSAGE: Final = b"X"
_IDLE_DELAY_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """When a copy ends: at the first commit after `rows` or `size_bytes`.

    A transaction that exceeds `transaction_rows` or `transaction_bytes` is copied in parts.
    """

    rows: int = 100_000
    size_bytes: int = 64 << 20
    transaction_rows: int = 1_000_000
    transaction_bytes: int = 1 << 30


class MessageWriter(Protocol):
    """Receives the messages of a copy: Relation, Begin, changes and Commit, in order.

    With type names, a message of kind `TYPES_MESSAGE` follows each Relation.
    """

    def write(self, message: bytes, order: int = 0, table_order: int = 0) -> None:
        """A change; `order` counts in its transaction, `table_order` per table."""


@dataclass(slots=True)
class _OpenTransaction:
    """The transaction whose messages arrive."""

    raw_begin: bytes
    begin: Begin
    # Changes up to this one belong to an earlier copy.
    skipped: int
    order: int = 0
    table_orders: Counter[int] = field(default_factory=Counter)
    is_begin_written: bool = False


class ChangeStream:
    """Committed changes of a slot, after a position."""

    def __init__(
        self,
        uri: str,
        *,
        slot: str,
        publication: str,
        slot_patience_s: float = 30,
        has_types: bool = False,
    ) -> None:
        self._uri = uri
        self._has_types = has_types
        self._type_names: dict[tuple[int, int], str] = {}
        self._slot = slot
        self._publication = publication
        self._slot_patience_s = slot_patience_s
        self._stream: ReplicationStream | None = None
        # Where a caller stands that has everything that was read from the connection.
        self._given: CdcPosition | None = None
        self._relations: dict[int, tuple[bytes, Relation]] = {}
        self._open: _OpenTransaction | None = None
        self._idle_lsn = Lsn(0)
        self._confirmed = Lsn(0)

    def copy(
        self,
        start: CdcPosition,
        writer: MessageWriter,
        *,
        keys: TableKeys,
        limits: CopyLimits | None = None,
        until: CdcPosition | None = None,
        now_ms: int = 0,
    ) -> CdcPosition:
        """Copy changes from `start` to a limit or the current end; return the end.

        With `until`, an end that an earlier copy has returned, copy exactly up to there. If there
        is nothing new, the answer is `start`.
        """
        try:
            return self._copy(start, writer, keys, limits or CopyLimits(), until, now_ms)
        except BaseException:
            # What was read and not returned is read again.
            self.close()
            raise

    def idle_position(self, position: CdcPosition) -> CdcPosition:
        """Return where an unchanged position may move without losing a change."""
        is_current = self._given is not None and self._given.is_same_place(position)
        if not is_current or self._open is not None or self._idle_lsn <= position.lsn:
            return position
        return position.at(self._idle_lsn, ms=position.ms)

    def confirm(self, position: CdcPosition) -> None:
        """Tell PostgreSQL that everything up to a position is stored elsewhere."""
        if self._stream is not None:
            self._stream.confirm(position.lsn)
            return
        with sql_connection(self._uri, self._slot) as connection:
            advance_slot(connection, self._slot, position.lsn)

    def confirm_later(self, position: CdcPosition) -> None:
        """Confirm a position, at the latest with the next copy."""
        self._confirmed = position.lsn
        if self._stream is not None:
            self._stream.confirm(position.lsn)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._given = None

    def _copy(
        self,
        start: CdcPosition,
        writer: MessageWriter,
        keys: TableKeys,
        limits: CopyLimits,
        until: CdcPosition | None,
        now_ms: int,
    ) -> CdcPosition:
        if self._stream is None or self._given is None or not self._given.is_same_place(start):
            self._start(start)
        stream = self._stream
        assert stream is not None, "just opened"
        target = self._target(until)
        copy = _Copy(
            writer,
            self._relations,
            start.ranges,
            keys,
            self._uri,
            self._types_message if self._has_types else None,
        )
        position, was_idle = start, False
        if self._open is not None:
            self._open.is_begin_written = False
        while True:
            message, lsn = stream.read()
            if message is None:
                if self._open is None and lsn >= target:
                    self._idle_lsn = lsn
                    # Without rows, only the idle position had moved to `until`.
                    if until is not None and (until.index or copy.exceeds(1, 1)):
                        raise SlotLost(
                            f"replication slot {self._slot} no longer has the changes up to "
                            f"{format_lsn(until.lsn)}: drop it and take a new snapshot"
                        )
                    break
                if was_idle:
                    time.sleep(_IDLE_DELAY_S)
                was_idle = True
                continue
            was_idle = False
            kind = message[0]
            if kind in _ROW_KINDS or kind == _TRUNCATE:
                transaction = self._open
                assert transaction is not None, "changes are between Begin and Commit"
                copy.add_change(transaction, message)
                place = (transaction.begin.final_lsn, transaction.order)
                if until is not None:
                    is_full = place == (until.lsn, until.index)
                else:
                    is_full = copy.exceeds(limits.transaction_rows, limits.transaction_bytes)
                if is_full:
                    position = start.at(*place, ms=now_ms)
                    break
            elif kind == _RELATION:
                relation = decode_message(message)
                assert isinstance(relation, Relation)
                self._relations[relation.oid] = message, relation
            elif kind == _BEGIN:
                self._begin(message, start)
            elif kind == _COMMIT:
                commit = decode_message(message)
                assert isinstance(commit, Commit)
                transaction, self._open = self._open, None
                if transaction is not None and transaction.is_begin_written:
                    writer.write(message)
                    position = start.at(commit.end_lsn, ms=now_ms)
                if until is not None:
                    is_full = until.index == 0 and commit.end_lsn >= until.lsn
                else:
                    # Under load there may be no idle moment to end at.
                    is_at_target = commit.end_lsn >= target
                    is_full = is_at_target or copy.exceeds(limits.rows, limits.size_bytes)
                if is_full:
                    break
        self._given = position
        return position

    def _start(self, start: CdcPosition) -> None:
        self.close()
        with sql_connection(self._uri, self._slot) as connection:
            confirmed = slot_status(connection, self._slot).confirmed_flush_lsn
        if confirmed > start.lsn:
            raise SlotLost(
                f"replication slot {self._slot} is confirmed up to {format_lsn(confirmed)}, beyond "
                f"the position {format_lsn(start.lsn)}: changes between them are lost, drop it and "
                "take a new snapshot"
            )
        self._relations, self._open = {}, None
        self._stream = ReplicationStream(
            self._uri,
            slot=self._slot,
            publication=self._publication,
            start=start.lsn,
            slot_patience_s=self._slot_patience_s,
        )
        if self._confirmed:
            self._stream.confirm(self._confirmed)

    def _begin(self, message: bytes, start: CdcPosition) -> None:
        begin = decode_message(message)
        assert isinstance(begin, Begin)
        is_continued = start.index > 0 and begin.final_lsn == start.lsn
        self._open = _OpenTransaction(message, begin, start.index if is_continued else 0)

    def _types_message(self, relation: Relation) -> bytes:
        """The names of the column types of a relation, as a message that follows it.

        Note: names are those of the present. A type that was dropped meanwhile is text.
        """
        types = {(each.type_oid, each.type_modifier) for each in relation.columns}
        wanted = [each for each in sorted(types) if each not in self._type_names]
        if wanted:
            values = ", ".join(f"({oid}::oid, {modifier})" for oid, modifier in wanted)
            with sql_connection(self._uri, self._slot) as connection:
                rows = query(
                    connection,
                    "SELECT v.oid::bigint AS oid, v.modifier, CASE WHEN t.oid IS NULL THEN 'text' "
                    "ELSE format_type(v.oid, v.modifier) END AS name "
                    f"FROM (VALUES {values}) AS v (oid, modifier) "
                    "LEFT JOIN pg_type t ON t.oid = v.oid",
                )
            self._type_names |= {(row["oid"], row["modifier"]): row["name"] for row in rows}
        names = [self._type_names[each.type_oid, each.type_modifier] for each in relation.columns]
        return TYPES_MESSAGE + _OID.pack(relation.oid) + json.dumps(names).encode()

    def _target(self, until: CdcPosition | None) -> Lsn:
        """The end of what is committed now."""
        if until is not None:
            return Lsn(until.lsn + 1)
        with sql_connection(self._uri, self._slot) as connection:
            (row,) = query(connection, "SELECT pg_current_wal_flush_lsn()::text AS lsn")
        return parse_lsn(row["lsn"])


class _Copy:
    """Counts what one copy has written, and leaves out what a snapshot has."""

    def __init__(
        self,
        writer: MessageWriter,
        relations: dict[int, tuple[bytes, Relation]],
        ranges: Sequence[SnapshotRange],
        keys: TableKeys,
        uri: str,
        types_message: Callable[[Relation], bytes] | None,
    ) -> None:
        self._writer = writer
        self._types_message = types_message
        self._relations = relations
        self._written: dict[int, bytes] = {}
        self._ranges: dict[str, list[SnapshotRange]] = {}
        for each in ranges:
            self._ranges.setdefault(each.table, []).append(each)
        self._keys = keys
        self._uri = uri
        self._rows = 0
        self._size_bytes = 0

    def exceeds(self, rows: int, size_bytes: int) -> bool:
        return self._rows >= rows or self._size_bytes >= size_bytes

    def add_change(self, transaction: _OpenTransaction, message: bytes) -> None:
        """Count a change; write it unless an earlier copy or a snapshot has it."""
        transaction.order += 1
        (oid,) = _OID.unpack_from(message, 1) if message[0] != _TRUNCATE else (0,)
        transaction.table_orders[oid] += 1
        if transaction.order <= transaction.skipped:
            return
        kept: bytes | None = message
        if self._ranges:
            kept = self._outside_of_snapshots(transaction.begin, message)
        if kept is None:
            return
        for each in self._oids(message):
            raw, relation = self._relations[each]
            if self._written.get(each) is not raw:
                self._writer.write(raw)
                if self._types_message is not None:
                    self._writer.write(self._types_message(relation))
                self._written[each] = raw
        if not transaction.is_begin_written:
            self._writer.write(transaction.raw_begin)
            transaction.is_begin_written = True
        self._writer.write(kept, transaction.order, transaction.table_orders[oid])
        self._rows += 1
        self._size_bytes += len(kept)

    def _oids(self, message: bytes) -> tuple[int, ...]:
        if message[0] != _TRUNCATE:
            return _OID.unpack_from(message, 1)
        truncate = decode_message(message)
        assert isinstance(truncate, Truncate)
        return truncate.relation_oids

    def _outside_of_snapshots(self, begin: Begin, message: bytes) -> bytes | None:
        """The part of a change that no snapshot has; None if a snapshot has it."""
        decoded = decode_message(message)
        if isinstance(decoded, Truncate):
            seen = {self._is_visible(begin, oid, None) for oid in decoded.relation_oids}
            if len(seen) > 1:
                raise SlotLost(
                    "a table was truncated while an interrupted snapshot continued: "
                    "drop the slot and take a new snapshot"
                )
            return None if seen == {True} else message
        assert isinstance(decoded, Insert | Update | Delete)
        oid = decoded.relation_oid
        old_key = None if isinstance(decoded, Insert) else decoded.key or decoded.old
        new = None if isinstance(decoded, Delete) else decoded.new
        if old_key is None or new is None:
            return None if self._is_visible(begin, oid, old_key or new) else message
        has_old = self._is_visible(begin, oid, old_key)
        has_new = self._is_visible(begin, oid, new)
        if has_old and has_new:
            return None
        if has_old or has_new:
            # The key moved from one range to another: only one half of the update is new.
            end = _new_row_start(message)
            half = message[end:] if has_old else message[5:end]
            return (b"I" if has_old else b"D") + message[1:5] + half
        return message

    def _is_visible(self, begin: Begin, oid: int, row: Sequence[object] | None) -> bool:
        relation = self._relations[oid][1]
        table = str(TableName(relation.namespace, relation.name))
        ranges = self._ranges.get(table, [])
        found = [each.visible.contains(begin.xid, begin.final_lsn) for each in ranges]
        if not found or len(set(found)) == 1:
            return bool(found) and found[0]
        if row is None:
            raise SlotLost(
                f"table {table} was truncated while an interrupted snapshot continued: "
                "drop the slot and take a new snapshot"
            )
        values = dict(zip((column.name for column in relation.columns), row, strict=True))
        is_visible = found[0]
        names = self._keys.primary_keys[relation.namespace, relation.name]
        for each, seen in zip(ranges[1:], found[1:], strict=True):
            assert each.after is not None, "only the first range has all keys"
            with sql_connection(self._uri, table) as connection:
                key = [str(values[name]) for name in names]
                if key_is_after(connection, TableName.parse(table), names, key, each.after):
                    is_visible = seen
        return is_visible


def with_types(relations: dict[int, Relation], message: bytes) -> None:
    """Put the names of a message of kind `TYPES_MESSAGE` into its relation."""
    (oid,) = _OID.unpack_from(message, 1)
    names = json.loads(message[5:])
    relation = relations[oid]
    columns = zip(relation.columns, names, strict=True)
    relations[oid] = replace(
        relation, columns=tuple(replace(column, type_name=name) for column, name in columns)
    )


def _new_row_start(message: bytes) -> int:
    """Where the `N` of the new row of an update is."""
    position = 5
    while True:
        kind = message[position : position + 1]
        start = position
        position += 1
        (columns,) = struct.unpack_from(">h", message, position)
        position += 2
        for _ in range(columns):
            is_text = message[position : position + 1] == b"t"
            position += 1
            if is_text:
                (length,) = struct.unpack_from(">i", message, position)
                position += 4 + length
        if kind == b"N":
            return start
