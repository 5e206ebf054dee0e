"""Write row changes as records with Debezium's change events, in JSON or Avro.

`EventFormat` is where the two differ. The form is that of Debezium's PostgreSQL connector with
`schemas.enable=false`, `decimal.handling.mode=string`, `binary.handling.mode=base64`,
`time.precision.mode=adaptive_time_microseconds` and `provide.transaction.metadata=true`: a delete
is followed by a tombstone, an update that changes the key is a delete, a tombstone and a create,
and a TOASTed value that was not sent is `__debezium_unavailable_value`.

Differences: arrays, ranges and intervals are PostgreSQL's text; `source` has no `version`,
`sequence` and `xmin`. In Avro, all columns outside the key may be null.
"""

import base64
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Protocol

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
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record for a topic; a null value is a tombstone. The name is Kafka Connect's."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """Where and when a change was made; a row of a snapshot has no transaction.

    `order` numbers the changes of the transaction, `table_order` those of the table in it.
    """

    lsn: Lsn
    ts_ms: int
    xid: int | None = None
    order: int = 0
    table_order: int = 0

    def transaction(self) -> dict[str, str | int] | None:
        """Debezium's field `transaction`."""
        if self.xid is None:
            return None
        return {
            "id": f"{self.xid}:{self.lsn}",
            "total_order": self.order,
            "data_collection_order": self.table_order,
        }

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Record headers with the commit LSN, the transaction id and the order in it."""
        lsn = ("__commit_lsn", format_lsn(self.lsn).encode())
        if self.xid is None:
            return (lsn,)
        return (
            lsn,
            ("__txid", str(self.xid).encode()),
            ("__tx_order", str(self.order).encode()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRouting:
    """Topics of tables: Debezium's `prefix.schema.table`, or the prefix."""

    prefix: str
    is_one_topic: bool = False

    def topic_of(self, relation: Relation) -> str:
        if self.is_one_topic:
            return self.prefix
        return f"{self.prefix}.{relation.namespace}.{relation.name}"


class EventFormat(Protocol):
    """Encodes keys and events, with rows that `row` has converted."""

    def row(self, relation: Relation, row: TupleData) -> dict[str, Any]: ...
    def key(self, topic: str, relation: Relation, key: Mapping[str, Any]) -> bytes: ...
    def value(self, topic: str, relation: Relation, event: Mapping[str, Any]) -> bytes: ...


class JsonEvents:
    """Events as JSON objects without schemas."""

    def row(self, relation: Relation, row: TupleData) -> dict[str, Any]:
        return {
            column.name: json_value(column.type_oid, value)
            for column, value in zip(relation.columns, row, strict=True)
        }

    def key(self, topic: str, relation: Relation, key: Mapping[str, Any]) -> bytes:
        del topic, relation
        return to_json(key)

    def value(self, topic: str, relation: Relation, event: Mapping[str, Any]) -> bytes:
        del topic, relation
        return to_json(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumEnvelope:
    """Write changes of one database with Debezium's `topic.prefix`."""

    routing: TopicRouting
    database: str
    keys: TableKeys
    has_tombstones: bool = True
    events: EventFormat = field(default_factory=JsonEvents)

    def transaction_records(
        self, transaction: SourceTransaction, *, now_ms: int
    ) -> Iterator[SourceRecord]:
        """Records of a transaction, in the order of its changes."""
        for change, origin in origins(transaction):
            yield from self.change_records(change, origin, now_ms=now_ms)

    def change_records(
        self, change: RowChange, origin: ChangeOrigin, *, now_ms: int
    ) -> Iterator[SourceRecord]:
        """Records of one change of a transaction, or of a row of a snapshot."""
        relation, operation = change.relation, change.operation
        before = None if change.before is None else self.events.row(relation, change.before)
        after = None if change.after is None else self.events.row(relation, change.after)
        if self.keys.old_key_row(change) is not None:
            old_key, new_key = self._key(relation, before), self._key(relation, after)
            deleted = self._value(relation, Operation.DELETE, before, None, origin, now_ms)
            created = self._value(relation, Operation.CREATE, None, after, origin, now_ms)
            moved = (("__debezium.newkey", new_key or b""),)
            yield self._record(relation, old_key, deleted, origin, moved)
            if self.has_tombstones:
                yield self._record(relation, old_key, None, origin)
            moved = (("__debezium.oldkey", old_key or b""),)
            yield self._record(relation, new_key, created, origin, moved)
            return
        key = self._key(relation, before if after is None else after)
        if operation is Operation.UPDATE and not change.has_full_before:
            before = None
        value = self._value(relation, operation, before, after, origin, now_ms)
        yield self._record(relation, key, value, origin)
        if operation is Operation.DELETE and self.has_tombstones:
            yield self._record(relation, key, None, origin)

    def _record(
        self,
        relation: Relation,
        key: bytes | None,
        value: bytes | None,
        origin: ChangeOrigin,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> SourceRecord:
        return SourceRecord(
            topic=self.routing.topic_of(relation),
            key=key,
            value=value,
            headers=origin.headers() + headers,
        )

    def _key(self, relation: Relation, row: Row | None) -> bytes | None:
        names = self.keys.of(relation)
        if row is None or not names:
            return None
        topic = self.routing.topic_of(relation)
        return self.events.key(topic, relation, {name: row[name] for name in names})

    def _value(
        self,
        relation: Relation,
        operation: Operation,
        before: Row | None,
        after: Row | None,
        origin: ChangeOrigin,
        now_ms: int,
    ) -> bytes:
        return self.events.value(
            self.routing.topic_of(relation),
            relation,
            {
                "before": before,
                "after": after,
                "source": {
                    "connector": "postgresql",
                    "name": self.routing.prefix,
                    "ts_ms": origin.ts_ms,
                    "snapshot": "true" if origin.xid is None else "false",
                    "db": self.database,
                    "schema": relation.namespace,
                    "table": relation.name,
                    "txId": origin.xid,
                    "lsn": origin.lsn,
                },
                "transaction": origin.transaction(),
                "op": operation.value,
                "ts_ms": now_ms,
            },
        )


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


def json_value(type_oid: int, value: str | UnchangedToast | None) -> JsonScalar:
    """A value in Debezium's JSON representation."""
    if value is None:
        return None
    if isinstance(value, UnchangedToast):
        return UNAVAILABLE
    typed = typed_value(type_oid, value)
    if type_oid == TIMESTAMPTZ:
        assert isinstance(typed, int)
        return iso_timestamp(typed)
    return plain_json(typed)


def origins(transaction: SourceTransaction) -> Iterator[tuple[RowChange, ChangeOrigin]]:
    """The changes of a transaction with their places in it."""
    table_orders: Counter[int] = Counter()
    for order, change in enumerate(transaction.changes, start=transaction.first_order):
        table_orders[change.relation.oid] += 1
        yield (
            change,
            ChangeOrigin(
                lsn=transaction.commit_lsn,
                ts_ms=transaction.commit_time_us // 1000,
                xid=transaction.xid,
                order=order,
                table_order=table_orders[change.relation.oid],
            ),
        )
