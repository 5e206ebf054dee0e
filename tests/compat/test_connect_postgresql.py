"""A Connect worker with PostgreSQL: a table through a topic into another, and its changes."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from headwater.client import Consumer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests import postgresql
from tests.connect_worker import WorkerProcess, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgresql.server(wal_level="logical") as address:
        yield address


@pytest.fixture(scope="module")
def worker(shared_broker: EmbeddedBroker) -> Iterator[WorkerProcess]:
    with WorkerProcess(shared_broker.bootstrap_servers, "postgresql-group") as started:
        yield started
        assert "Traceback" not in started.log_text, started.log_text


def test_rows_of_a_table_reach_another_one(worker: WorkerProcess, uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT n, 'n' || n FROM generate_series(1, 50) n")
        source = {
            "connector.class": "PostgresqlSource",
            "uri": uri,
            "table": "orders",
            "incrementing": "id",
            "topic": "pg-orders",
            "key": "id",
            "poll.interval.ms": "100",
        }
        sink = {
            "connector.class": "PostgresqlSink",
            "topics": "pg-orders",
            "schema": "id bigint, name string",
            "key": "id",
            "uri": uri,
            "table": "copies",
        }
        assert worker.ask("PUT", "/connectors/orders/config", source).status == 201
        assert worker.ask("PUT", "/connectors/copies/config", sink).status == 201
        worker.wait_for_state("copies", "RUNNING")
        connection.execute("INSERT INTO orders VALUES (51, NULL)")

        def copied() -> list[tuple[int, str | None]]:
            found = connection.execute("SELECT id, name FROM copies ORDER BY id").fetchall()
            return [(number, name) for number, name in found]

        expected = [*((each, f"n{each}") for each in range(1, 51)), (51, None)]
        eventually(lambda: copied() == expected, lambda: worker.log_text)
    for name in ("orders", "copies"):
        assert worker.ask("DELETE", f"/connectors/{name}").status == 204


def test_changes_of_a_table_reach_its_topic(
    worker: WorkerProcess, shared_broker: EmbeddedBroker, uri: str
) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE items (id bigint PRIMARY KEY, name text)")
        connection.execute("INSERT INTO items VALUES (1, 'a')")
        config = {
            "connector.class": "postgresql-cdc",
            "uri": uri,
            "table.include.list": "public.items",
            "topic.prefix": "shop",
            "slot.name": "worker",
            "envelope": "flat",
            "poll.interval.ms": "100",
        }
        assert worker.ask("PUT", "/connectors/cdc/config", config).status == 201
        topics = {"cdc": {"topics": ["shop.public.items"]}}
        eventually(lambda: worker.get("/connectors/cdc/topics") == topics, lambda: worker.log_text)
        connection.execute("UPDATE items SET name = 'b'")
        connection.execute("DELETE FROM items")
        settings = {
            "bootstrap.servers": shared_broker.bootstrap_servers,
            "isolation.level": "read_committed",
        }
        found: list[tuple[bytes | None, object]] = []
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition("shop.public.items", 0)])
            consumer.seek_to_beginning()

            def has_all() -> bool:
                for each in consumer.poll(0.2):
                    value = None if each.value is None else json.loads(each.value)
                    found.append((each.key, value and (value["__op"], value.get("name"))))
                return len(found) >= 4

            eventually(has_all, lambda: f"{found}\n{worker.log_text}")
        key = b'{"id":1}'
        assert found == [(key, ("r", "a")), (key, ("u", "b")), (key, ("d", None)), (key, None)]
    assert worker.ask("DELETE", "/connectors/cdc").status == 204
