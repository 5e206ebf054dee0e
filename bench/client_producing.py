"""Producer throughput: Headwater's client, aiokafka, kafka-python and confluent-kafka.

All send the same values to the same broker, with acks=all, idempotence, batches of 64 KiB and 5 ms
of linger, and every record is acknowledged when the clock stops.

Note: broker and client share the machine's cores, so a fast client also measures the broker. And
`send_table` does more than its first counterpart, a loop over the same object; the other line has
rows of a table in both.
"""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer as ConfluentProducer

from bench.client_contest import (
    AIOKAFKA_GOAL,
    CONFLUENT_GOAL,
    KAFKA_PYTHON_GOAL,
    SIZES,
    Goal,
    compare,
    rate,
)
from bench.harness import Bench
from bench.processes import Server, broker
from bench.raw_requests import produce_frame, produce_pipelined
from bench.topics import create_topic
from bench.warm_memory import on_warm_memory
from headwater.client import Producer
from headwater.client.aio import Producer as AioProducer
from tests.compat.foreign import load

TOPIC: Final = "bench"
BATCH_BYTES: Final = 65_536
LINGER_MS: Final = 5
# Slow clients send fewer records, so that a round takes about as long for each.
RECORDS: Final = 200_000
FEW_RECORDS: Final = 40_000
ROWS: Final = 1_000_000
ROWS_AT_ONCE: Final = 10_000
# Size and number in flight of `send_table`'s requests.
RAW_BYTES: Final = 1_000_000
RAW_IN_FLIGHT: Final = 5
LIMIT: Final = "prebuilt requests"

GOALS: Final = (
    Goal("send", "kafka-python", KAFKA_PYTHON_GOAL),
    Goal("send, asyncio", "aiokafka", AIOKAFKA_GOAL),
    Goal("send_table", "confluent-kafka", CONFLUENT_GOAL),
    Goal("send_table", "confluent-kafka, rows of a table", CONFLUENT_GOAL),
)


def measure(bench: Bench) -> None:
    with broker() as (server, directory):
        create_topic(server, TOPIC)
        for size_bytes, share in SIZES:
            _compare(bench, server, directory, size_bytes, share)


def _compare(bench: Bench, server: Server, directory: Path, size_bytes: int, share: int) -> None:
    servers, value = server.address, bytes(size_bytes)
    contenders = {
        "send": partial(_ours, servers, value, RECORDS // share),
        "send, asyncio": partial(_ours_asyncio, servers, value, RECORDS // share),
        "send_table": partial(_table, servers, value, ROWS // share),
        "aiokafka": partial(_aiokafka, servers, value, FEW_RECORDS // share),
        "kafka-python": partial(_kafka_python, servers, value, FEW_RECORDS // share),
        "confluent-kafka": partial(_confluent, servers, value, RECORDS // share),
        "confluent-kafka, rows of a table": partial(_rows, servers, value, RECORDS // share),
        LIMIT: partial(_raw, server.port, size_bytes, ROWS // share),
    }
    written_bytes = ROWS // share * size_bytes
    warmed = {
        label: on_warm_memory(run, directory, written_bytes) for label, run in contenders.items()
    }
    compare(bench, size_bytes, warmed, GOALS, limited="send_table", limit=LIMIT)


def _ours(servers: str, value: bytes, count: int) -> float:
    with Producer(bootstrap_servers=servers, batch_size=BATCH_BYTES) as producer:
        producer.send(TOPIC, value).result(30)
        began = time.perf_counter()
        for _ in range(count):
            producer.send(TOPIC, value)
        producer.flush()
        return rate(began, count)


def _ours_asyncio(servers: str, value: bytes, count: int) -> float:
    async def run() -> float:
        async with AioProducer(bootstrap_servers=servers, batch_size=BATCH_BYTES) as producer:
            await producer.send_and_wait(TOPIC, value)
            began = time.perf_counter()
            for _ in range(count):
                await producer.send(TOPIC, value)
            await producer.flush()
            return rate(began, count)

    return asyncio.run(run())


def _table(servers: str, value: bytes, count: int) -> float:
    table = pa.table({"value": pa.array([value] * count, pa.binary())})
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_table(TOPIC, table.slice(0, 1)).result(30)
        began = time.perf_counter()
        producer.send_table(TOPIC, table).result()
        return rate(began, count)


def _aiokafka(servers: str, value: bytes, count: int) -> float:
    async def run() -> float:
        producer: Any = load("aiokafka").AIOKafkaProducer(
            bootstrap_servers=servers,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            enable_idempotence=True,
        )
        await producer.start()
        await producer.send_and_wait(TOPIC, value)
        began = time.perf_counter()
        for _ in range(count):
            await producer.send(TOPIC, value)
        await producer.flush()
        found_rate = rate(began, count)
        await producer.stop()
        return found_rate

    return asyncio.run(run())


def _kafka_python(servers: str, value: bytes, count: int) -> float:
    producer: Any = load("kafka").KafkaProducer(
        bootstrap_servers=servers,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        enable_idempotence=True,
    )
    producer.send(TOPIC, value).get(30)
    began = time.perf_counter()
    for _ in range(count):
        producer.send(TOPIC, value)
    producer.flush()
    found_rate = rate(began, count)
    producer.close()
    return found_rate


def _confluent(servers: str, value: bytes, count: int) -> float:
    producer = _confluent_producer(servers)
    began = time.perf_counter()
    for _ in range(count):
        _produce(producer, value)
    producer.flush(60)
    return rate(began, count)


def _rows(servers: str, value: bytes, count: int) -> float:
    """What a user of confluent-kafka does with a table."""
    table = pa.table({"value": pa.array([value] * count, pa.binary())})
    producer = _confluent_producer(servers)
    began = time.perf_counter()
    for batch in table.to_batches(ROWS_AT_ONCE):
        for each in batch.column("value").to_pylist():
            _produce(producer, each)
    producer.flush(60)
    return rate(began, count)


def _confluent_producer(servers: str) -> ConfluentProducer:
    # Its default batch.size of a million bytes stays: it is what its users get.
    producer = ConfluentProducer(
        {
            "bootstrap.servers": servers,
            "linger.ms": LINGER_MS,
            "enable.idempotence": True,
            "log_level": 3,
        }
    )
    producer.produce(TOPIC, b"first")
    producer.flush(30)
    return producer


def _produce(producer: ConfluentProducer, value: bytes | None) -> None:
    while True:
        try:
            producer.produce(TOPIC, value)
            break
        except BufferError:
            producer.poll(0.01)


def _raw(port: int, size_bytes: int, count: int) -> float:
    records = RAW_BYTES // size_bytes
    frame = produce_frame(records, topic=TOPIC, value_bytes=size_bytes)
    frames = max(count // records, RAW_IN_FLIGHT)
    began = time.perf_counter()
    produce_pipelined(port, frame, frames, owed=RAW_IN_FLIGHT)
    return rate(began, frames * records)
