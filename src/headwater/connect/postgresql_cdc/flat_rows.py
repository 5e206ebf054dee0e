"""Write row changes as flat rows: the columns, `__op`, `__lsn` and `__ts`.

`__op` has Debezium's letters, `__lsn` the commit LSN as a number and `__ts` the commit time in
milliseconds. A deleted row has the columns of its old row; with the default replica identity the
columns outside the key are null. An update that changes the key is a delete and a create. A
truncation is a row without columns. Dates and times are PostgreSQL's ISO text, in UTC.

Note: a TOASTed value that was not sent is left out of the row, so that merging rows by key keeps
the earlier value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headwater.connect.postgresql_cdc.column_types import TEMPORAL, typed_value
from headwater.connect.postgresql_cdc.debezium_envelope import (
    ChangeOrigin,
    JsonRow,
    SourceRecord,
    TopicRouting,
    plain_json,
    to_json,
)
from headwater.connect.postgresql_cdc.pgoutput import Lsn, Relation, TupleData, UnchangedToast
from headwater.connect.postgresql_cdc.row_changes import (
    Operation,
    RowChange,
    SourceTransaction,
    TableKeys,
)

OP: Final = "__op"
LSN: Final = "__lsn"
TS: Final = "__ts"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRow:
    """One row for a table, with its key; the key is empty for a truncation."""

    relation: Relation
    key: JsonRow
    row: JsonRow


@dataclass(frozen=True, slots=True)
class FlatRows:
    """Write changes as flat rows."""

    keys: TableKeys = field(default_factory=TableKeys)

    def transaction_rows(self, transaction: SourceTransaction) -> Iterator[FlatRow]:
        """Rows of a transaction, in the order of its changes."""
        ts_ms = transaction.commit_time_us // 1000
        for change in transaction.changes:
            yield from self.change_rows(change, lsn=transaction.commit_lsn, ts_ms=ts_ms)

    def change_rows(self, change: RowChange, *, lsn: Lsn, ts_ms: int) -> Iterator[FlatRow]:
        relation, operation = change.relation, change.operation
        old_key_row = self.keys.old_key_row(change)
        if old_key_row is not None:
            yield self._flat(relation, Operation.DELETE, old_key_row, lsn, ts_ms)
            operation = Operation.CREATE
        row = change.before if change.after is None else change.after
        yield self._flat(relation, operation, row, lsn, ts_ms)

    def _flat(
        self, relation: Relation, operation: Operation, row: TupleData | None, lsn: Lsn, ts_ms: int
    ) -> FlatRow:
        values = {} if row is None else _values(relation, row)
        names = self.keys.of(relation)
        return FlatRow(
            relation=relation,
            key={name: values[name] for name in names if name in values},
            row=values | {OP: operation.value, LSN: lsn, TS: ts_ms},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatEnvelope:
    """Write flat rows as records; a delete is followed by a tombstone."""

    routing: TopicRouting
    keys: TableKeys
    has_tombstones: bool = True

    def change_records(
        self, change: RowChange, origin: ChangeOrigin, *, now_ms: int
    ) -> Iterator[SourceRecord]:
        """Records of one change of a transaction, or of a row of a snapshot."""
        del now_ms
        rows = FlatRows(self.keys).change_rows(change, lsn=origin.lsn, ts_ms=origin.ts_ms)
        for flat in rows:
            topic = self.routing.topic_of(flat.relation)
            key = to_json(flat.key) if flat.key else None
            headers = origin.headers()
            yield SourceRecord(topic=topic, key=key, value=to_json(flat.row), headers=headers)
            if flat.row[OP] == Operation.DELETE.value and self.has_tombstones:
                yield SourceRecord(topic=topic, key=key, value=None, headers=headers)


def _values(relation: Relation, row: TupleData) -> JsonRow:
    values: JsonRow = {}
    for column, value in zip(relation.columns, row, strict=True):
        if value is None or (isinstance(value, str) and column.type_oid in TEMPORAL):
            values[column.name] = value
        elif not isinstance(value, UnchangedToast):
            values[column.name] = plain_json(typed_value(column.type_oid, value))
    return values
