"""Row changes in Debezium's envelope and as flat rows."""

import json
from decimal import Decimal
from typing import Any

import pytest

from headwater.connect.postgresql_cdc.column_types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT8,
    INT4,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnValue,
    typed_value,
)
from headwater.connect.postgresql_cdc.debezium_envelope import (
    DebeziumEnvelope,
    JsonEvents,
    SourceRecord,
    TopicRouting,
)
from headwater.connect.postgresql_cdc.flat_rows import FlatRow, FlatRows
from headwater.connect.postgresql_cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Lsn,
    MalformedPgoutput,
    PgoutputMessage,
    Relation,
    RelationColumn,
    ReplicaIdentity,
    Truncate,
    Update,
)
from headwater.connect.postgresql_cdc.row_changes import (
    Operation,
    RowChange,
    SourceTransaction,
    TableKeys,
    TransactionAssembler,
)

ORDERS = Relation(
    oid=7,
    namespace="public",
    name="orders",
    replica_identity=ReplicaIdentity.DEFAULT,
    columns=(
        RelationColumn(name="id", type_oid=INT4, is_key=True),
        RelationColumn(name="note", type_oid=TEXT),
    ),
)
ENVELOPE = DebeziumEnvelope(routing=TopicRouting(prefix="shop"), database="db", keys=TableKeys())


def transaction(*messages: PgoutputMessage) -> SourceTransaction:
    assembler = TransactionAssembler()
    assembler.add(Begin(final_lsn=Lsn(100), commit_time_us=5_000_000, xid=9))
    assembler.add(ORDERS)
    for message in messages:
        assert assembler.add(message) is None
    found = assembler.add(Commit(commit_lsn=Lsn(100), end_lsn=Lsn(120), commit_time_us=5_000_000))
    assert found is not None
    return found


def debezium(*messages: PgoutputMessage) -> list[SourceRecord]:
    return list(ENVELOPE.transaction_records(transaction(*messages), now_ms=6000))


def flat(*messages: PgoutputMessage) -> list[FlatRow]:
    return list(FlatRows().transaction_rows(transaction(*messages)))


def value(operation: str, before: Any, after: Any, order: int = 1) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": {
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 5000,
            "snapshot": "false",
            "db": "db",
            "schema": "public",
            "table": "orders",
            "txId": 9,
            "lsn": 100,
        },
        "transaction": {"id": "9:100", "total_order": order, "data_collection_order": order},
        "op": operation,
        "ts_ms": 6000,
    }


def shown(records: list[SourceRecord]) -> list[tuple[Any, Any]]:
    return [(json.loads(r.key or b"null"), json.loads(r.value or b"null")) for r in records]


def row(**values: Any) -> FlatRow:
    key = {"id": values["id"]} if "id" in values else {}
    return FlatRow(relation=ORDERS, key=key, row=values | {"__lsn": 100, "__ts": 5000})


def test_an_insert_is_a_create_with_key_topic_and_position() -> None:
    (record,) = debezium(Insert(7, ("1", "tea")))
    assert record.topic == "shop.public.orders"
    assert record.headers == (("__commit_lsn", b"0/64"), ("__txid", b"9"), ("__tx_order", b"1"))
    assert shown([record]) == [({"id": 1}, value("c", None, {"id": 1, "note": "tea"}))]
    assert flat(Insert(7, ("1", "tea"))) == [row(id=1, note="tea", __op="c")]


def test_a_delete_is_followed_by_a_tombstone() -> None:
    deletion = Delete(relation_oid=7, key=("1", None))
    deleted, tombstone = debezium(deletion)
    assert shown([deleted]) == [({"id": 1}, value("d", {"id": 1, "note": None}, None))]
    assert (tombstone.key, tombstone.value) == (deleted.key, None)
    assert flat(deletion) == [row(id=1, note=None, __op="d")]


def test_an_update_of_the_key_is_a_delete_a_tombstone_and_a_create() -> None:
    update = Update(relation_oid=7, key=("1", None), new=("2", "tea"))
    records = debezium(update)
    assert shown(records) == [
        ({"id": 1}, value("d", {"id": 1, "note": None}, None)),
        ({"id": 1}, None),
        ({"id": 2}, value("c", None, {"id": 2, "note": "tea"})),
    ]
    assert records[0].headers[-1] == ("__debezium.newkey", b'{"id":2}')
    assert records[2].headers[-1] == ("__debezium.oldkey", b'{"id":1}')
    assert flat(update) == [row(id=1, note=None, __op="d"), row(id=2, note="tea", __op="c")]


def test_an_update_with_full_identity_has_the_old_row() -> None:
    update = Update(relation_oid=7, old=("1", "tea"), new=("1", "milk"))
    expected = value("u", {"id": 1, "note": "tea"}, {"id": 1, "note": "milk"})
    assert shown(debezium(update)) == [({"id": 1}, expected)]
    assert flat(update) == [row(id=1, note="milk", __op="u")]


def test_an_unchanged_toasted_value_is_marked_and_left_out_of_flat_rows() -> None:
    update = Update(relation_oid=7, new=("1", UNCHANGED))
    after = {"id": 1, "note": "__debezium_unavailable_value"}
    assert shown(debezium(update)) == [({"id": 1}, value("u", None, after))]
    assert flat(update) == [row(id=1, __op="u")]


def test_an_unchanged_toasted_value_comes_from_a_full_old_row() -> None:
    update = Update(relation_oid=7, old=("1", "long"), new=("1", UNCHANGED))
    assert flat(update) == [row(id=1, note="long", __op="u")]


def test_an_unchanged_toasted_key_is_not_a_change_of_the_key() -> None:
    update = Update(relation_oid=7, key=("1", None), new=(UNCHANGED, UNCHANGED))
    assert flat(update) == [row(id=1, __op="u")]


def test_a_truncate_has_no_key_and_no_tombstone() -> None:
    truncate = Truncate(relation_oids=(7,))
    assert shown(debezium(truncate)) == [(None, value("t", None, None))]
    assert flat(truncate) == [row(__op="t")]


def test_the_primary_key_takes_precedence_over_a_full_identity() -> None:
    keys = TableKeys({("public", "orders"): ("id",)})
    full = Relation(
        oid=7,
        namespace="public",
        name="orders",
        replica_identity=ReplicaIdentity.FULL,
        columns=tuple(
            RelationColumn(name=each.name, type_oid=each.type_oid, is_key=True)
            for each in ORDERS.columns
        ),
    )
    change = RowChange(
        operation=Operation.UPDATE,
        relation=full,
        before=("1", "tea"),
        after=("1", "milk"),
        has_full_before=True,
    )
    assert keys.of(full) == ("id",)
    assert keys.old_key_row(change) is None
    assert TableKeys().of(full) == ("id", "note")
    assert TableKeys().old_key_row(change) == ("1", "tea")


def test_order_in_the_transaction_is_counted() -> None:
    records = debezium(Insert(7, ("1", "a")), Insert(7, ("2", "b")))
    assert [json.loads(r.value or b"")["transaction"]["total_order"] for r in records] == [1, 2]


@pytest.mark.parametrize(
    "messages",
    [
        (Insert(8, ("1", "a")),),
        (Insert(7, ("1",)),),
        (Begin(final_lsn=Lsn(1), commit_time_us=0, xid=1),),
    ],
)
def test_messages_out_of_order_are_malformed(messages: tuple[PgoutputMessage, ...]) -> None:
    with pytest.raises(MalformedPgoutput):
        transaction(*messages)


@pytest.mark.parametrize(
    "message",
    [Insert(7, ("1", "a")), Commit(commit_lsn=Lsn(1), end_lsn=Lsn(2), commit_time_us=0)],
)
def test_changes_outside_of_a_transaction_are_malformed(message: PgoutputMessage) -> None:
    assembler = TransactionAssembler()
    assembler.add(ORDERS)
    with pytest.raises(MalformedPgoutput):
        assembler.add(message)


@pytest.mark.parametrize(
    ("type_oid", "text", "expected"),
    [
        (BOOL, "t", True),
        (BOOL, "f", False),
        (NUMERIC, "12345678901234567890.10", Decimal("12345678901234567890.10")),
        (BYTEA, "\\x00ff", b"\x00\xff"),
        (DATE, "0044-03-15 BC", -735160),
        (DATE, "infinity", 2**31 - 1),
        (TIME, "24:00:00", 86_400_000_000),
        (TIME, "00:00:00.5", 500_000),
        (TIMESTAMP, "12345-01-01 00:00:00", 327_403_382_400_000_000),
        (TIMESTAMPTZ, "infinity", 9_223_372_036_825_200_000),
        (TIMESTAMPTZ, "1970-01-01 00:00:00+00", 0),
        (TEXT, "t", "t"),
    ],
)
def test_texts_become_typed_values(type_oid: int, text: str, expected: ColumnValue) -> None:
    found = typed_value(type_oid, text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("type_oid", "text"),
    [(BOOL, "yes"), (INT4, "x"), (DATE, "1/2/2024"), (BYTEA, "abc"), (NUMERIC, "one")],
)
def test_texts_of_another_form_are_malformed(type_oid: int, text: str) -> None:
    with pytest.raises(MalformedPgoutput, match="not a value"):
        typed_value(type_oid, text)


def test_values_have_debeziums_json_form() -> None:
    columns = {"n": NUMERIC, "b": BYTEA, "d": DATE, "z": TIMESTAMPTZ, "f": FLOAT8}
    relation = Relation(
        oid=1,
        namespace="s",
        name="t",
        replica_identity=ReplicaIdentity.DEFAULT,
        columns=tuple(RelationColumn(name=n, type_oid=oid) for n, oid in columns.items()),
    )
    texts = ("0.0000001", "\\xff", "1970-01-02", "2024-05-06 07:08:09.5+00", "-Infinity")
    assert JsonEvents().row(relation, texts) == {
        "n": "0.0000001",
        "b": "/w==",
        "d": 1,
        "z": "2024-05-06T07:08:09.500000Z",
        "f": "-Infinity",
    }
