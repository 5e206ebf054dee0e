"""Assemble pgoutput messages into transactions of row changes.

`TransactionAssembler` keeps the relation cache: pgoutput sends a Relation before the first change
of a table and again after its schema has changed. A transaction is given out when its Commit
arrives, so a transaction that was rolled back, or is not complete, never is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from headwater.connect.postgresql_cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    DataType,
    Delete,
    Insert,
    LogicalMessage,
    Lsn,
    MalformedPgoutput,
    Origin,
    PgoutputMessage,
    Relation,
    ReplicaIdentity,
    Truncate,
    TupleData,
    Update,
)


class Operation(Enum):
    """Debezium's letters for operations."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    TRUNCATE = "t"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A change of one row, a row of a snapshot, or the truncation of a table.

    `before` is the old row, as far as the replica identity has it: with REPLICA IDENTITY FULL it is
    complete, otherwise it has the key columns of a deleted row or of an update that changed them,
    and null for the others. `has_full_before` distinguishes the two.
    """

    operation: Operation
    relation: Relation
    before: TupleData | None = None
    after: TupleData | None = None
    has_full_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTransaction:
    """A committed transaction with its row changes in order.

    A large transaction is read in parts: `first_order` is the number of the first change, and
    `end_lsn` is None unless the part has the last one.
    """

    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn | None
    commit_time_us: int
    changes: tuple[RowChange, ...]
    first_order: int = 1


@dataclass(slots=True)
class TransactionAssembler:
    """Turn decoded messages into transactions."""

    relations: dict[int, Relation] = field(default_factory=dict)
    types: dict[int, DataType] = field(default_factory=dict)
    _begin: Begin | None = None
    _changes: list[RowChange] = field(default_factory=list)

    def add(self, message: PgoutputMessage) -> SourceTransaction | None:
        """Take the next message; return the transaction that it commits."""
        match message:
            case Begin():
                if self._begin is not None:
                    raise MalformedPgoutput("a Begin before the Commit of another transaction")
                self._begin = message
                self._changes = []
            case Commit():
                return self._commit(message)
            case Relation():
                self.relations[message.oid] = message
            case DataType():
                self.types[message.oid] = message
            case Insert() | Update() | Delete() | Truncate():
                if self._begin is None:
                    raise MalformedPgoutput("a change outside of a transaction")
                self._changes += self.row_changes(message)
            case Origin() | LogicalMessage():
                pass
            case _:
                assert_never(message)
        return None

    def unfinished(self) -> SourceTransaction | None:
        """The part that was read of a transaction that continues; None if there is none."""
        begin, changes = self._begin, self._changes
        if begin is None or not changes:
            return None
        return SourceTransaction(
            xid=begin.xid,
            commit_lsn=begin.final_lsn,
            end_lsn=None,
            commit_time_us=begin.commit_time_us,
            changes=tuple(changes),
        )

    def _commit(self, commit: Commit) -> SourceTransaction:
        begin, changes = self._begin, self._changes
        if begin is None:
            raise MalformedPgoutput("a Commit without a Begin")
        self._begin, self._changes = None, []
        return SourceTransaction(
            xid=begin.xid,
            commit_lsn=commit.commit_lsn,
            end_lsn=commit.end_lsn,
            commit_time_us=commit.commit_time_us,
            changes=tuple(changes),
        )

    def row_changes(self, message: Insert | Update | Delete | Truncate) -> list[RowChange]:
        match message:
            case Insert():
                relation = self._relation(message.relation_oid, message.new)
                return [RowChange(operation=Operation.CREATE, relation=relation, after=message.new)]
            case Update():
                relation = self._relation(message.relation_oid, message.new)
                is_full = message.old is not None
                before = message.old if is_full else message.key
                return [
                    RowChange(
                        operation=Operation.UPDATE,
                        relation=relation,
                        before=before,
                        after=_with_old_toast(message.new, before, is_full=is_full),
                        has_full_before=is_full,
                    )
                ]
            case Delete():
                before = message.key if message.old is None else message.old
                return [
                    RowChange(
                        operation=Operation.DELETE,
                        relation=self._relation(message.relation_oid, before),
                        before=before,
                        has_full_before=message.old is not None,
                    )
                ]
            case Truncate():
                return [
                    RowChange(operation=Operation.TRUNCATE, relation=self._relation(oid, None))
                    for oid in message.relation_oids
                ]
            case _:
                assert_never(message)

    def _relation(self, oid: int, row: TupleData | None) -> Relation:
        relation = self.relations.get(oid)
        if relation is None:
            raise MalformedPgoutput(f"a change of relation {oid} before its Relation message")
        if row is not None and len(row) != len(relation.columns):
            raise MalformedPgoutput(
                f"a row of {relation.namespace}.{relation.name} has {len(row)} columns "
                f"instead of {len(relation.columns)}"
            )
        return relation


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Key columns of tables, by schema and table, in the order of the primary key.

    With the default replica identity, messages tell the key of their time. With another one, the
    primary key must be given here: with REPLICA IDENTITY FULL all columns are marked.
    """

    primary_keys: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def of(self, relation: Relation) -> tuple[str, ...]:
        """Return key columns in column order, so that a row's key is stable."""
        if relation.replica_identity is not ReplicaIdentity.DEFAULT:
            key = self.primary_keys.get((relation.namespace, relation.name), ())
            found = tuple(column.name for column in relation.columns if column.name in key)
            if key and len(found) == len(key):
                return found
        return tuple(column.name for column in relation.columns if column.is_key)

    def old_key_row(self, change: RowChange) -> TupleData | None:
        """The old row of an update that changed the key; None if it did not."""
        if change.operation is not Operation.UPDATE or change.before is None:
            return None
        assert change.after is not None
        names = self.of(change.relation)
        indexes = [i for i, each in enumerate(change.relation.columns) if each.name in names]
        if all(change.before[i] == change.after[i] for i in indexes):
            return None
        return change.before


def _with_old_toast(new: TupleData, before: TupleData | None, *, is_full: bool) -> TupleData:
    """Fill in unchanged TOASTed values from the old row, as far as that has them."""
    if before is None or len(before) != len(new):
        return new
    return tuple(
        old if each is UNCHANGED and (is_full or old is not None) else each
        for old, each in zip(before, new, strict=True)
    )
