"""Change capture beside Debezium in Kafka Connect, from one PostgreSQL into one broker.

Both deliver exactly once, in JSON without schemas. Each contender takes a snapshot of the rows that
are there, then streams a backlog of transactions, then follows single updates. Times begin when the
worker of Connect, or Spark's session with its Python processes, is up.

Note: not among the benchmarks of `make bench` yet, since it has not run in full.
"""

import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from bench.harness import Bench
from bench.processes import PeakMemory
from headwater.client import Admin, Consumer, TopicPartition
from headwater.connect.import_export import Running, import_rows
from headwater.spark import session
from headwater.testing import EmbeddedBroker
from tests import postgresql
from tests.peers.connect_worker import ConnectWorker
from tests.peers.jars import DEBEZIUM
from tests.peers.processes import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = 500_000
TRANSACTIONS: Final = 500
TRANSACTION_ROWS: Final = 1_000
UPDATES: Final = 1_000
_UPDATE_PAUSE_S: Final = 0.02
_PATIENCE_S: Final = 400
_POLL_S: Final = 0.05
_MEBIBYTE: Final = 1 << 20
_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class Scene:
    """The database and the broker that all contenders use."""

    uri: str
    port: int
    servers: str
    folder: Path


def measure(bench: Bench) -> None:
    if (reason := DEBEZIUM.absence()) is not None:
        raise SystemExit(reason)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    port = free_port()
    settings = {"wal_level": "logical", "max_wal_size": "4GB", "listen_addresses": "127.0.0.1"}
    with (
        postgresql.server(**settings, port=str(port)),
        EmbeddedBroker() as broker,
        tempfile.TemporaryDirectory() as name,
    ):
        uri = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        scene = Scene(uri, port, broker.bootstrap_servers, Path(name))
        for label, running in (("Headwater", _headwater), ("Debezium", _debezium)):
            with PeakMemory() as memory:
                _contend(bench, scene, label, running)
            for program, peak in sorted(memory.peaks.items()):
                if program in ("java", "python", "python3"):
                    bench.record(f"{label}: largest {program}", peak / _MEBIBYTE, "MiB")


def _contend(bench: Bench, scene: Scene, label: str, running: "Contender") -> None:
    table = label.lower()
    topic = f"{table}.public.{table}"
    with closing(psycopg.connect(scene.uri, autocommit=True)) as connection:
        connection.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v text, n numeric, at timestamptz)"
        )
        connection.execute(
            f"INSERT INTO {table} SELECT i, md5(i::text), i / 7.0, now() "
            f"FROM generate_series(1, {ROWS}) i"
        )
        with Admin(bootstrap_servers=scene.servers) as admin:
            admin.create_topic(topic, partitions=1)
        with running(scene, table) as start:
            began = time.perf_counter()
            stop = start()
            _await_end(scene, topic, ROWS)
            bench.record(f"{label}: snapshot", ROWS / (time.perf_counter() - began), "rows/s")
            changes = TRANSACTIONS * TRANSACTION_ROWS
            end = _end(scene, topic)
            began = time.perf_counter()
            for number in range(TRANSACTIONS):
                first = number * TRANSACTION_ROWS
                connection.execute(
                    f"UPDATE {table} SET n = n + 1 WHERE id > {first} "
                    f"AND id <= {first + TRANSACTION_ROWS}"
                )
            _await_end(scene, topic, end + changes)
            bench.record(f"{label}: stream", changes / (time.perf_counter() - began), "rows/s")
            found = sorted(_latencies(scene, connection, table, topic))
            bench.record(f"{label}: commit to consumer, p50", statistics.median(found), "ms")
            bench.record(f"{label}: commit to consumer, p99", found[len(found) * 99 // 100], "ms")
            stop()


def _await_end(scene: Scene, topic: str, records: int) -> None:
    """Wait until a topic has so many records; markers of transactions count too."""
    until = time.monotonic() + _PATIENCE_S
    while _end(scene, topic) < records:
        assert time.monotonic() < until, f"{topic} ends at {_end(scene, topic)}"
        time.sleep(_POLL_S)


def _end(scene: Scene, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=scene.servers) as consumer:
        return consumer.end_offsets([partition])[partition]


def _latencies(
    scene: Scene, connection: "psycopg.Connection[tuple[object, ...]]", table: str, topic: str
) -> Iterator[float]:
    """Milliseconds from the commits of single updates until a consumer has their records."""
    partition = TopicPartition(topic, 0)
    with (
        Consumer(bootstrap_servers=scene.servers, isolation_level="read_committed") as consumer,
        ThreadPoolExecutor(1) as threads,
    ):
        consumer.assign([partition])
        consumer.seek_to_end([partition])
        consumer.position(partition)

        def update() -> None:
            for number in range(UPDATES):
                connection.execute(f"UPDATE {table} SET v = 'late' WHERE id = {number + 1}")
                time.sleep(_UPDATE_PAUSE_S)

        updates = threads.submit(update)
        seen = 0
        until = time.monotonic() + _PATIENCE_S
        while seen < UPDATES:
            assert time.monotonic() < until, f"{seen} updates arrived"
            records = consumer.poll(0.1)
            now_ms = time.time_ns() / 1e6
            for record in records:
                event = json.loads(record.value or b"{}")
                if (event.get("after") or {}).get("v") == "late":
                    seen += 1
                    yield now_ms - event["source"]["ts_ms"]
        updates.result()


@contextmanager
def _headwater(scene: Scene, table: str) -> Iterator[Callable[[], Callable[[], None]]]:
    spark = session(conf={"spark.log.level": "ERROR"})
    try:
        _warm(spark)

        def start() -> Callable[[], None]:
            query = import_rows(
                spark,
                "postgresql-cdc",
                {
                    "uri": scene.uri,
                    "table.include.list": f"public.{table}",
                    "slot.name": table,
                    "topic.prefix": table,
                    "spool": str(scene.folder / "spool"),
                },
                bootstrap_servers=scene.servers,
                topic=table,
                running=Running(
                    checkpoint=str(scene.folder / "checkpoint"), once=False, every="0 seconds"
                ),
            )
            return query.stop

        yield start
    finally:
        spark.stop()


def _warm(spark: "SparkSession") -> None:
    """Start the Python processes of tasks."""
    spark.range(100, numPartitions=2).mapInArrow(lambda batches: batches, "id bigint").count()


@contextmanager
def _debezium(scene: Scene, table: str) -> Iterator[Callable[[], Callable[[], None]]]:
    settings = {
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.flush.interval.ms": "1000",
    }
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(scene.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "postgres",
        "table.include.list": f"public.{table}",
        "slot.name": table,
        "publication.name": table,
        "publication.autocreate.mode": "filtered",
        "topic.prefix": table,
        "decimal.handling.mode": "string",
        "provide.transaction.metadata": "true",
        "tasks.max": "1",
    }
    with ConnectWorker(
        scene.servers,
        scene.folder,
        "debezium",
        peer=DEBEZIUM,
        settings=settings,
        jvm_options=("-Xmx1g",),
    ) as worker:

        def start() -> Callable[[], None]:
            worker.put_connector(table, config)
            return worker.kill

        yield start


Contender = Callable[[Scene, str], "AbstractContextManager[Callable[[], Callable[[], None]]]"]
