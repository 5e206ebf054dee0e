"""Write row changes as records with Debezium's change event envelope, in JSON.

The form is that of Debezium's PostgreSQL connector with `schemas.enable=false`,
`decimal.handling.mode=string`, `time.precision.mode=adaptive_time_microseconds`,
`binary.handling.mode=base64` and `provide.transaction.metadata=true`: a delete is followed by a
tombstone, an update that changes the key is a delete, a tombstone and a create, and a TOASTed value
that was not sent is `__debezium_unavailable_value`.

Differences: arrays, ranges and intervals are PostgreSQL's text; `source` has no `version`,
`sequence` and `xmin`.
"""

import base64
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headwater.connect.postgresql_cdc.column_types import TIMESTAMPTZ, iso_timestamp, typed_value
from headwater.connect.postgresql_cdc.pgoutput import (
    Lsn,
    Relation,
    TupleData,
    UnchangedToast,
    format_lsn,
)
from headwater.connect.postgresql_cdc.row_changes import (
    Operation,
    RowChange,
    SourceTransaction,
    TableKeys,
)

UNAVAILABLE: Final = "__debezium_unavailable_value"

JsonScalar = bool | int | float | str | None
JsonRow = dict[str, JsonScalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record for a topic; a null value is a tombstone. The name is Kafka Connect's."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where and when a change was made."""

    lsn: Lsn
    xid: int | None
    ts_ms: int
    snapshot: str
    transaction: dict[str, str | int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumEnvelope:
    """Write changes of one database; `topic_prefix` is Debezium's `topic.prefix`."""

    topic_prefix: str
    database: str
    keys: TableKeys

    def transaction_records(
        self, transaction: SourceTransaction, *, now_ms: int
    ) -> Iterator[SourceRecord]:
        """Records of a transaction, in the order of its changes."""
        orders: Counter[str] = Counter()
        for number, change in enumerate(transaction.changes, start=1):
            table = f"{change.relation.namespace}.{change.relation.name}"
            orders[table] += 1
            origin = _Origin(
                lsn=transaction.commit_lsn,
                xid=transaction.xid,
                ts_ms=transaction.commit_time_us // 1000,
                snapshot="false",
                transaction={
                    "id": f"{transaction.xid}:{transaction.commit_lsn}",
                    "total_order": number,
                    "data_collection_order": orders[table],
                },
            )
            for record in self._records(change, origin, now_ms):
                yield _with_headers(record, transaction, number)

    def snapshot_record(
        self, change: RowChange, *, lsn: Lsn, snapshot_ms: int, now_ms: int
    ) -> SourceRecord:
        """The record of a row that a snapshot has read."""
        origin = _Origin(lsn=lsn, xid=None, ts_ms=snapshot_ms, snapshot="true")
        (record,) = self._records(change, origin, now_ms)
        return record

    def _records(self, change: RowChange, origin: _Origin, now_ms: int) -> Iterator[SourceRecord]:
        relation, operation = change.relation, change.operation
        before = None if change.before is None else json_row(relation, change.before)
        after = None if change.after is None else json_row(relation, change.after)
        old_key_row = self.keys.old_key_row(change)
        if old_key_row is not None:
            old_key, new_key = self._key(relation, before), self._key(relation, after)
            deleted = self._value(relation, Operation.DELETE, before, None, origin, now_ms)
            created = self._value(relation, Operation.CREATE, None, after, origin, now_ms)
            moved = (("__debezium.newkey", new_key or b""),)
            yield self._record(relation, old_key, deleted, moved)
            yield self._record(relation, old_key, None)
            moved = (("__debezium.oldkey", old_key or b""),)
            yield self._record(relation, new_key, created, moved)
            return
        key = self._key(relation, before if after is None else after)
        if operation is Operation.UPDATE and not change.has_full_before:
            before = None
        value = self._value(relation, operation, before, after, origin, now_ms)
        yield self._record(relation, key, value)
        if operation is Operation.DELETE:
            yield self._record(relation, key, None)

    def _record(
        self,
        relation: Relation,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> SourceRecord:
        topic = f"{self.topic_prefix}.{relation.namespace}.{relation.name}"
        return SourceRecord(topic=topic, key=key, value=value, headers=headers)

    def _key(self, relation: Relation, row: JsonRow | None) -> bytes | None:
        names = self.keys.of(relation)
        if row is None or not names:
            return None
        return to_json({name: row[name] for name in names})

    def _value(
        self,
        relation: Relation,
        operation: Operation,
        before: JsonRow | None,
        after: JsonRow | None,
        origin: _Origin,
        now_ms: int,
    ) -> bytes:
        return to_json(
            {
                "before": before,
                "after": after,
                "source": {
                    "connector": "postgresql",
                    "name": self.topic_prefix,
                    "ts_ms": origin.ts_ms,
                    "snapshot": origin.snapshot,
                    "db": self.database,
                    "schema": relation.namespace,
                    "table": relation.name,
                    "txId": origin.xid,
                    "lsn": origin.lsn,
                },
                "transaction": origin.transaction,
                "op": operation.value,
                "ts_ms": now_ms,
            }
        )


def json_row(relation: Relation, row: TupleData) -> JsonRow:
    """A row with Debezium's JSON representation of its values."""
    return {
        column.name: _json_value(column.type_oid, value)
        for column, value in zip(relation.columns, row, strict=True)
    }


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def plain_json(value: bool | float | Decimal | bytes | str) -> JsonScalar:
    """A converted value as JSON: exact numbers as text, bytes as base64."""
    match value:
        case float() if not math.isfinite(value):
            return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        case Decimal():
            return str(value) if not value.is_finite() else f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def _json_value(type_oid: int, value: str | UnchangedToast | None) -> JsonScalar:
    if value is None:
        return None
    if isinstance(value, UnchangedToast):
        return UNAVAILABLE
    typed = typed_value(type_oid, value)
    if type_oid == TIMESTAMPTZ:
        assert isinstance(typed, int)
        return iso_timestamp(typed)
    return plain_json(typed)


def _with_headers(
    record: SourceRecord, transaction: SourceTransaction, number: int
) -> SourceRecord:
    position = (
        ("__commit_lsn", format_lsn(transaction.commit_lsn).encode()),
        ("__txid", str(transaction.xid).encode()),
        ("__tx_order", str(number).encode()),
    )
    return SourceRecord(
        topic=record.topic,
        key=record.key,
        value=record.value,
        headers=position + record.headers,
    )
