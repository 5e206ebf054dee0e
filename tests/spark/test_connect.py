"""Import from PostgreSQL to a topic, and export to a table and to files."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from headwater.client import Admin, Producer
from headwater.connect.import_export import Running, export_rows, import_rows
from headwater.connect.postgresql_client import connect
from headwater.testing import EmbeddedBroker
from tests import postgresql
from tests.spark.queries import run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id bigint, name string, amount double"
EVERYTHING = "SELECT id, name, amount FROM orders ORDER BY id"
COPIED = "SELECT id, name, amount FROM copied ORDER BY id"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql.server() as uri:
        yield uri


@pytest.fixture
def topic(spark_broker: EmbeddedBroker) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=spark_broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    return name


def run(uri: str, statement: str) -> None:
    with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        connection.commit()


def select(uri: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]


def add(uri: str, first: int, last: int) -> None:
    run(
        uri,
        "INSERT INTO orders SELECT n, 'order ' || n, n * 0.25 "
        f"FROM generate_series({first}, {last}) n",
    )


def forget_last_batch(checkpoint: Path) -> None:
    """As if Spark died after its tasks have written, before it recorded the commit."""
    notes = [path for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()]
    max(notes, key=lambda path: int(path.name)).unlink()


@pytest.mark.spark
def test_table_is_imported_and_exported_without_duplicates(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str, database: str, tmp_path: Path
) -> None:
    servers = spark_broker.bootstrap_servers
    run(database, "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, amount FLOAT8)")

    def bring_in() -> None:
        options = {"uri": database, "table": "orders", "incrementing": "id"}
        run_to_its_end(
            lambda: import_rows(
                spark,
                "postgresql",
                {**options, "maxRowsPerTrigger": "150"},
                bootstrap_servers=servers,
                topic=topic,
                key="id",
                running=Running(checkpoint=str(tmp_path / "in")),
            )
        )

    def bring_out() -> None:
        run_to_its_end(
            lambda: export_rows(
                spark,
                "postgresql",
                {"uri": database, "table": "copied"},
                bootstrap_servers=servers,
                topic=topic,
                schema=COLUMNS,
                running=Running(checkpoint=str(tmp_path / "out")),
            )
        )

    add(database, 1, 200)
    bring_in()
    forget_last_batch(tmp_path / "in")
    add(database, 201, 300)
    bring_in()
    bring_out()
    assert select(database, COPIED) == select(database, EVERYTHING)
    # Without a key, the table itself does not prevent duplicates.
    forget_last_batch(tmp_path / "out")
    add(database, 301, 310)
    bring_in()
    bring_out()
    assert select(database, COPIED) == select(database, EVERYTHING)
    assert len(select(database, COPIED)) == 310


def test_records_update_and_delete_rows_by_key(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str, database: str, tmp_path: Path
) -> None:
    servers = spark_broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        for number, name in ((1, "a"), (2, "b"), (1, "c"), (3, "d")):
            value = b'{"id": %d, "name": "%s"}' % (number, name.encode())
            producer.send(topic, value, key=b"%d" % number)
        producer.send(topic, None, key=b"3")
    run_to_its_end(
        lambda: export_rows(
            spark,
            "postgresql",
            {"uri": database, "table": "latest", "key": "id"},
            bootstrap_servers=servers,
            topic=topic,
            schema="id bigint, name string",
            key="id",
            running=Running(checkpoint=str(tmp_path)),
        )
    )
    found = select(database, "SELECT id, name FROM latest ORDER BY id")
    assert found == [(1, "c"), (2, "b")]


@pytest.mark.spark
def test_topic_is_exported_to_files_and_files_are_imported(
    spark: "SparkSession", spark_broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    servers = spark_broker.bootstrap_servers
    (tmp_path / "given").mkdir()
    lines = [f"{number},row {number}\n" for number in range(50)]
    (tmp_path / "given" / "rows.csv").write_text("id,name\n" + "".join(lines))
    run_to_its_end(
        lambda: import_rows(
            spark,
            "files",
            {"path": str(tmp_path / "given"), "format": "csv"},
            bootstrap_servers=servers,
            topic=topic,
            key="id",
            running=Running(checkpoint=str(tmp_path / "in")),
        )
    )
    for _ in range(2):
        run_to_its_end(
            lambda: export_rows(
                spark,
                "files",
                {"path": str(tmp_path / "made"), "format": "parquet"},
                bootstrap_servers=servers,
                topic=topic,
                schema="id bigint, name string",
                running=Running(checkpoint=str(tmp_path / "out")),
            )
        )
        forget_last_batch(tmp_path / "out")
    rows = [row for path in (tmp_path / "made").glob("*.parquet") for row in read(path)]
    assert sorted(rows) == [(number, f"row {number}") for number in range(50)]


def read(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
