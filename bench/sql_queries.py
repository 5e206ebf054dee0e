"""Rows per second of a query over a topic, beside a loop of confluent-kafka into pandas.

Both read the same JSON records from the same broker and compute the same sums. The loop is what
its users write: `consume`, `json.loads`, a data frame of all records, `groupby`.

The second part aggregates a topic that is larger than the memory that a query may use. Its size is
HEADWATER_SQL_GB, 5 by default; peak memory is that of the process that queries.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any, Final

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

import headwater.sql
from bench.harness import Bench, in_turn
from bench.processes import Server, broker
from bench.topics import create_topic
from headwater.client import Producer

GOAL: Final = 10.0
ROUNDS: Final = 3
PARTITIONS: Final = 4
TOPIC: Final = "orders"
LARGE: Final = "large"
RECORDS: Final = 400_000
KINDS: Final = ("green", "black", "white", "oolong")
PEAK_MIB_MAX: Final = 1_024.0
_CHUNK: Final = 20_000
_POLL_S: Final = 10.0
_SEED: Final = 23

QUERY: Final = "select kind, count(*) as orders, sum(grams) as grams from orders group by kind"
_LARGE_QUERY: Final = """
import headwater.sql, resource, sys
with headwater.sql.connect(sys.argv[1], memory_limit="256MB") as session:
    result = session.sql("select kind, count(*), sum(grams) from large group by kind")
    rows = result.rows()
    counts = result.statistics
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(row[1] for row in rows), counts.bytes_read, peak)
"""


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        create_topic(server, TOPIC, partitions=PARTITIONS)
        values = _values(RECORDS)
        _produce(server, TOPIC, values)
        wanted = _sums(pd.DataFrame(map(json.loads, values)))
        contenders = {
            "headwater sql": lambda: _rate(lambda: _query(server), wanted),
            "confluent-kafka into pandas": lambda: _rate(lambda: _loop(server), wanted),
        }
        rates = {
            label: statistics.median(found) for label, found in in_turn(contenders, ROUNDS).items()
        }
        for label, rate in rates.items():
            bench.record(label, rate, "rows/s")
        bench.record(
            "headwater sql, times the loop",
            rates["headwater sql"] / rates["confluent-kafka into pandas"],
            "x",
            compared_with="confluent-kafka into pandas",
            at_least=GOAL,
        )
        _measure_large(bench, server)


def _measure_large(bench: Bench, server: Server) -> None:
    size_bytes = float(os.environ.get("HEADWATER_SQL_GB", "5")) * 1e9
    create_topic(server, LARGE, partitions=PARTITIONS)
    values = _values(_CHUNK, note_bytes=900)
    chunk_bytes = sum(map(len, values))
    chunks = max(round(size_bytes / chunk_bytes), 1)
    for _ in range(chunks):
        _produce(server, LARGE, values)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _LARGE_QUERY, server.address],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    rows, read_bytes, peak_kib = map(int, done.stdout.split())
    if rows != chunks * _CHUNK:
        raise AssertionError(f"{rows} rows instead of {chunks * _CHUNK}")
    bench.record("large topic: read", read_bytes / 1e9, "GB")
    bench.record("large topic: rate", read_bytes / 1e6 / seconds, "MB/s")
    bench.record("large topic: peak memory", peak_kib / 1_024, "MiB", at_most=PEAK_MIB_MAX)


def _values(count: int, *, note_bytes: int = 60) -> list[bytes]:
    rng = random.Random(_SEED)
    return [
        json.dumps(
            {
                "id": number,
                "kind": rng.choice(KINDS),
                "grams": rng.randrange(1_000),
                "price": round(rng.random() * 100, 2),
                "note": "x" * rng.randrange(note_bytes, note_bytes + 20),
            }
        ).encode()
        for number in range(count)
    ]


def _produce(server: Server, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=server.address) as producer:
        for first in range(0, len(values), _CHUNK):
            part = values[first : first + _CHUNK]
            partitions = [number % PARTITIONS for number in range(len(part))]
            table: Any = pa.table({"value": part, "partition": pa.array(partitions, pa.int32())})
            producer.send_table(topic, table).result(120)


def _rate(run: Any, wanted: dict[str, tuple[int, int]]) -> float:
    began = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - began
    if found != wanted:
        raise AssertionError(f"{found} instead of {wanted}")
    return RECORDS / seconds


def _query(server: Server) -> dict[str, tuple[int, int]]:
    with headwater.sql.connect(server.address) as session:
        found = session.sql(QUERY).pandas()
    return {str(row.kind): (int(row.orders), int(row.grams)) for row in found.itertuples()}


def _loop(server: Server) -> dict[str, tuple[int, int]]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.address,
            "group.id": "loop",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    rows: list[dict[str, Any]] = []
    while len(rows) < RECORDS:
        rows += [
            json.loads(message.value() or b"null") for message in consumer.consume(10_000, _POLL_S)
        ]
    consumer.close()
    return _sums(pd.DataFrame(rows))


def _sums(frame: pd.DataFrame) -> dict[str, tuple[int, int]]:
    found = frame.groupby("kind").agg(orders=("grams", "size"), grams=("grams", "sum"))
    return {str(kind): (int(row.orders), int(row.grams)) for kind, row in found.iterrows()}
