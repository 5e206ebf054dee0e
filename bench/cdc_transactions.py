"""Change capture of a very large transaction, and beside a transaction that stays open.

The first runs on Spark with exactly-once delivery into a topic, as `headwater connect import` does,
and records the memory of all its processes. The second reads without Spark, since it is about
PostgreSQL's decoding: `CdcReader` shows when a committed change arrives.

Note: not among the benchmarks of `make bench` yet, since it has not run in full.
"""

import logging
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from bench.harness import Bench
from bench.processes import PeakMemory
from headwater.client import Admin, Consumer, TopicPartition
from headwater.connect.import_export import Running, import_rows
from headwater.connect.postgresql_cdc.cdc_position import CdcPosition
from headwater.connect.postgresql_cdc.cdc_reader import CdcReader
from headwater.spark import session
from headwater.testing import EmbeddedBroker
from tests import postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = 5_000_000
# Rows that the open transaction has written, and how long it stays open.
OPEN_ROWS: Final = 500_000
OPEN_S: Final = 180
_BASE_S: Final = 30
_PAUSE_S: Final = 0.005
_PREFIX: Final = "cdc"
_MEBIBYTE: Final = 1 << 20


def measure(bench: Bench) -> None:
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with postgresql.server(wal_level="logical", max_wal_size="4GB") as uri:
        _large_transaction(bench, uri)
        _open_transaction(bench, uri)


def _large_transaction(bench: Bench, uri: str) -> None:
    _run(uri, "CREATE TABLE big (id int PRIMARY KEY, v text)")
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(f"{_PREFIX}.public.big", partitions=1)
        spark = session(conf={"spark.log.level": "ERROR"})
        try:
            # Creates the slot, and starts the Python processes.
            _import(spark, uri, broker, Path(folder))
            _run(uri, f"INSERT INTO big SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) n")
            with PeakMemory() as memory:
                began = time.perf_counter()
                _import(spark, uri, broker, Path(folder))
                seconds = time.perf_counter() - began
        finally:
            spark.stop()
        partition = TopicPartition(f"{_PREFIX}.public.big", 0)
        with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            end = consumer.end_offsets([partition])[partition]
    # Each batch has a marker besides its records.
    assert ROWS < end < ROWS + 100, end
    bench.record(f"a transaction of {ROWS:,} rows: time", seconds, "s")
    bench.record(f"a transaction of {ROWS:,} rows: rate", ROWS / seconds, "rows/s")
    for name, peak in sorted(memory.peaks.items()):
        bench.record(f"its largest {name} process", peak / _MEBIBYTE, "MiB")


def _import(spark: "SparkSession", uri: str, broker: EmbeddedBroker, folder: Path) -> None:
    options = {
        "uri": uri,
        "table.include.list": "public.big",
        "slot.name": "big",
        "topic.prefix": _PREFIX,
        "spool": str(folder / "spool"),
    }
    query = import_rows(
        spark,
        "postgresql-cdc",
        options,
        bootstrap_servers=broker.bootstrap_servers,
        topic=_PREFIX,
        running=Running(checkpoint=str(folder / "checkpoint")),
    )
    query.awaitTermination()


def _open_transaction(bench: Bench, uri: str) -> None:
    _run(uri, "CREATE TABLE small (id int PRIMARY KEY, v int)", "INSERT INTO small VALUES (1, 0)")
    reader = CdcReader(uri, tables=["small", "big"], slot="small", publication="small")
    reader.create()
    with reader.snapshot() as snapshot:
        position = snapshot.position
    with closing(reader), _updates(uri):
        base, position = _latencies(reader, position, _BASE_S)
        _record_latencies(bench, "no open transaction", base)
        with closing(psycopg.connect(uri)) as connection:
            connection.execute(
                f"INSERT INTO big SELECT -n, 'open' FROM generate_series(1, {OPEN_ROWS}) n"
            )
            _, position = _latencies(reader, position, OPEN_S - _BASE_S)
            beside, position = _latencies(reader, position, _BASE_S)
            _record_latencies(bench, f"a transaction open for {OPEN_S} s", beside)
            reader.close()
            began = time.perf_counter()
            reader.read(position, max_changes=1)
            bench.record("a restart beside it, until it reads", time.perf_counter() - began, "s")
            connection.commit()
            began = time.perf_counter()
            _await_rows(reader, position, OPEN_ROWS)
            bench.record(
                f"its {OPEN_ROWS:,} rows after its commit", time.perf_counter() - began, "s"
            )
    reader.drop()


@contextmanager
def _updates(uri: str) -> Iterator[None]:
    """Commit an update every few milliseconds."""
    stopped = threading.Event()

    def update() -> None:
        with closing(psycopg.connect(uri, autocommit=True)) as connection:
            while not stopped.wait(_PAUSE_S):
                connection.execute("UPDATE small SET v = v + 1")

    thread = threading.Thread(target=update)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _latencies(
    reader: CdcReader, position: CdcPosition, seconds: float
) -> tuple[list[float], CdcPosition]:
    """Milliseconds from each commit until its change was read."""
    found: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        transactions, position = reader.read(position)
        now_us = time.time_ns() // 1000
        found += [(now_us - each.commit_time_us) / 1000 for each in transactions]
        reader.confirm(position)
    return found, position


def _record_latencies(bench: Bench, label: str, found: list[float]) -> None:
    percentiles = statistics.quantiles(found, n=100)
    bench.record(f"{label}: transactions", len(found) / _BASE_S, "per s")
    bench.record(f"{label}: commit to read, p50", percentiles[49], "ms")
    bench.record(f"{label}: commit to read, p99", percentiles[98], "ms")


def _await_rows(reader: CdcReader, position: CdcPosition, rows: int) -> None:
    seen = 0
    while seen < rows:
        transactions, position = reader.read(position)
        seen += sum(
            change.relation.name == "big" for each in transactions for change in each.changes
        )


def _run(uri: str, *statements: Any) -> None:
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        for statement in statements:
            connection.execute(statement)
