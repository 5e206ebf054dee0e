"""A transaction of millions of rows is read in bounded memory."""

import json
import multiprocessing
import resource
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.connect.connector import Position
from headwater.connect.postgresql_cdc.cdc_connector import PostgresqlCdcSource
from tests import postgresql

ROWS = 5_000_000
# The imports alone take about 160 MiB.
MAX_MEBIBYTES = 400


def read_all(options: dict[str, str], start: Position) -> tuple[int, Position, dict[str, float]]:
    """Read all batches after a position; return records, the end, and what it took."""
    source = PostgresqlCdcSource(options)
    records, batches, planned_s, began_s = 0, 0, 0.0, time.monotonic()
    with closing(source):
        while True:
            source.commit(start)
            planning_s = time.monotonic()
            end = json.loads(json.dumps(source.latest(start)))
            planned_s += time.monotonic() - planning_s
            if end == start:
                break
            batches += 1
            records += sum(
                batch.num_rows
                for split in source.splits(start, end)
                for batch in source.read(split)
            )
            start = end
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.monotonic() - began_s
    return (
        records,
        start,
        {"MiB": peak, "s": seconds, "s of planning": planned_s, "batches": batches},
    )


def in_new_process(*arguments: Any) -> tuple[int, Position, dict[str, float]]:
    """Its peak of memory is not that of other tests."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(read_all, arguments)


@pytest.mark.slow
def test_a_transaction_of_five_million_rows_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with postgresql.server(wal_level="logical", max_wal_size="4GB") as uri:
        options = {
            "uri": uri,
            "table.include.list": "public.big",
            "slot.name": "big",
            "topic.prefix": "p",
            "spool": str(tmp_path),
        }
        with closing(psycopg.connect(uri, autocommit=True)) as connection:
            connection.execute("CREATE TABLE big (id int PRIMARY KEY, v text)")
            _, start, base = in_new_process(options, {})
            connection.execute(
                f"INSERT INTO big SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) n"
            )
        records, _, used = in_new_process(options, start)
    print(f"\n{ROWS:,} rows: {used}; nothing: {base}")
    assert records == ROWS
    assert used["MiB"] < MAX_MEBIBYTES
