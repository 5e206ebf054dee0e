"""Commits to Iceberg that happen once, through PyIceberg and a catalog in SQLite."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.pipelines.spec.pipeline_spec import PartitionField
from headwater.pipelines.tables.iceberg_table import (
    BATCH_ID,
    COMPACTED,
    QUERY_ID,
    BatchOfQuery,
    IcebergTable,
    writer_of,
)
from headwater.spark.exceptions import InvalidOption, WrongColumns

COLUMNS: dict[str, pa.DataType] = {"id": pa.int64(), "name": pa.string()}
SCHEMA = pa.schema(COLUMNS)


@pytest.fixture
def orders(tmp_path: Path) -> IcebergTable:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    return IcebergTable(name="sales.orders", catalog=catalog)


def _batch(number: int, query: str = "q") -> BatchOfQuery:
    return BatchOfQuery(query_id=query, batch_id=number)


def _files(table: IcebergTable, rows: dict[int, str], schema: pa.Schema = SCHEMA) -> list[Any]:
    """As a task writes them: with what was pickled, and pickled on its way back."""
    write = pickle.loads(pickle.dumps(writer_of(table.prepare(schema))))
    columns = {"id": list(rows), "name": list(rows.values())}
    found: list[Any] = pickle.loads(pickle.dumps(write(pa.table(columns).cast(SCHEMA))))
    return found


def _rows(table: IcebergTable) -> dict[int, str]:
    found = table.load().scan().to_arrow().to_pylist()
    rows = {each["id"]: each["name"] for each in found}
    assert len(found) == len(rows)
    return rows


def test_a_batch_is_committed_once(orders: IcebergTable) -> None:
    files = _files(orders, {1: "a", 2: "b"})
    assert orders.commit(_batch(0), files)
    assert not orders.commit(_batch(0), files)
    assert _rows(orders) == {1: "a", 2: "b"}
    snapshot = orders.load().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary[QUERY_ID], snapshot.summary[BATCH_ID]) == ("q", "0")


def test_queries_do_not_hide_the_batches_of_others(orders: IcebergTable) -> None:
    assert orders.commit(_batch(5), _files(orders, {1: "a"}))
    assert orders.commit(_batch(0, "other"), _files(orders, {2: "b"}))
    assert not orders.commit(_batch(4), _files(orders, {3: "c"}))
    assert _rows(orders) == {1: "a", 2: "b"}


def test_a_batch_of_another_driver_is_found_when_a_commit_fails(
    orders: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _files(orders, {1: "a"})
    load = IcebergTable.load
    is_first = True

    def load_before_the_other(table: IcebergTable) -> Any:
        nonlocal is_first
        found = load(table)
        if is_first:
            is_first = False
            assert table.commit(_batch(0), files)
        return found

    monkeypatch.setattr(IcebergTable, "load", load_before_the_other)
    assert not orders.commit(_batch(0), files)
    assert _rows(orders) == {1: "a"}


def test_keys_are_replaced_and_deleted_in_the_same_commit(orders: IcebergTable) -> None:
    orders.commit(_batch(0), _files(orders, {1: "a", 2: "b", 3: "c"}))
    keys = pa.table({"id": pa.array([2, 3, 9], pa.int64())})
    assert orders.commit(_batch(1), _files(orders, {2: "B", 9: "n"}), keys=keys)
    assert not orders.commit(_batch(1), _files(orders, {2: "again"}), keys=keys)
    assert _rows(orders) == {1: "a", 2: "B", 9: "n"}


def test_many_keys_of_two_columns_can_be_merged(orders: IcebergTable) -> None:
    rows = {number: str(number % 7) for number in range(2_000)}
    orders.commit(_batch(0), _files(orders, rows))
    keys = pa.table({"id": list(rows), "name": list(rows.values())}).cast(SCHEMA)
    assert orders.commit(_batch(1), _files(orders, {1: "1"}), keys=keys)
    assert _rows(orders) == {1: "1"}


def test_new_columns_are_added_only_if_allowed(orders: IcebergTable) -> None:
    orders.commit(_batch(0), _files(orders, {1: "a"}))
    wider = SCHEMA.append(pa.field("more", pa.string()))
    with pytest.raises(WrongColumns, match="no column more: set schema_evolution: true"):
        orders.prepare(wider)
    orders.prepare(wider, schema_evolution=True)
    orders.commit(_batch(1), _files(orders, {2: "b"}))
    assert orders.load().scan().to_arrow()["more"].to_pylist() == [None, None]


def test_a_type_that_does_not_fit_is_one_line(orders: IcebergTable) -> None:
    orders.prepare(SCHEMA)
    with pytest.raises(WrongColumns) as refused:
        orders.prepare(pa.schema({"id": pa.string()}))
    assert str(refused.value) == (
        "the columns do not match the table: 1: id: optional long in the table, "
        "1: id: optional string here"
    )


def test_small_files_are_compacted_within_their_partitions(orders: IcebergTable) -> None:
    orders.prepare(SCHEMA, [PartitionField(column="name")])
    for number in range(4):
        orders.commit(_batch(number), _files(orders, {number: "a", number + 10: "b"}))
    rows = _rows(orders)
    assert orders.compact() == (8, 2)
    assert _rows(orders) == rows
    assert orders.compact() == (0, 0)
    snapshot = orders.load().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary[COMPACTED] == "true"
    # The batches are remembered as before.
    assert not orders.commit(_batch(3), _files(orders, {99: "x"}))


def test_files_that_another_writer_replaced_are_not_compacted(
    orders: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        orders.commit(_batch(number), _files(orders, {number: "a"}))
    find = IcebergTable._small_files

    def find_before_a_merge(table: IcebergTable, target_bytes: int) -> Any:
        found = find(table, target_bytes)
        keys = pa.table({"id": pa.array([1], pa.int64())})
        table.commit(_batch(9), _files(table, {1: "new"}), keys=keys)
        return found

    monkeypatch.setattr(IcebergTable, "_small_files", find_before_a_merge)
    assert orders.compact() == (0, 0)
    assert _rows(orders) == {0: "a", 1: "new", 2: "a"}


def test_partitions_are_made_with_the_table(orders: IcebergTable) -> None:
    table = orders.prepare(SCHEMA, [PartitionField(column="name")])
    assert [each.name for each in table.spec().fields] == ["name"]
    assert len(_files(orders, {1: "a", 2: "b", 3: "a"})) == 2


def test_a_catalog_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/no/c.db", "warehouse": str(tmp_path)}
    with pytest.raises(InvalidOption, match="unable to open database file"):
        IcebergTable(name="a.b", catalog=catalog).prepare(SCHEMA)


def test_a_table_that_is_not_there_is_one_line(orders: IcebergTable) -> None:
    with pytest.raises(InvalidOption, match=r"the table sales\.orders: .*does not exist"):
        orders.load()
