"""Consumer throughput: Headwater's client, aiokafka, kafka-python and confluent-kafka.

All read the same records of one partition from the same broker, 500 at a time, and touch every
value.

Note: Headwater's table has no object per record, so its values are not touched; the comparison is
the work until an application can use them. confluent-kafka is measured twice: with the values, and
with the same table.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import confluent_kafka
import pyarrow as pa

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
from bench.raw_requests import RawReader
from bench.topics import create_topic
from headwater.client import Consumer, Producer, TopicPartition
from headwater.client.aio import Consumer as AioConsumer
from headwater.client.consumer.fetch.arrow_tables import SCHEMA
from tests.compat.foreign import load

AT_ONCE: Final = 500
ROWS_AT_ONCE: Final = 10_000
# Slow clients read fewer records, so that a round takes about as long for each.
RECORDS: Final = 1_000_000
FEW_RECORDS: Final = 60_000
POLL_S: Final = 10.0
RAW_BYTES: Final = 8 * 1_048_576
LIMIT: Final = "responses that are not decoded"

GOALS: Final = (
    Goal("poll", "kafka-python, reading", KAFKA_PYTHON_GOAL),
    Goal("poll, asyncio", "aiokafka, reading", AIOKAFKA_GOAL),
    Goal("poll_table", "confluent-kafka, reading", CONFLUENT_GOAL),
    Goal("poll_table, views", "confluent-kafka, reading", CONFLUENT_GOAL),
    Goal("poll_table", "confluent-kafka, a table of it", CONFLUENT_GOAL),
)


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        for size_bytes, share in SIZES:
            topic = f"bench-{size_bytes}"
            create_topic(server, topic)
            table = pa.table({"value": pa.array([bytes(size_bytes)] * (RECORDS // share))})
            with Producer(bootstrap_servers=server.address) as producer:
                producer.send_table(topic, table).result()
            _compare(bench, server, topic, size_bytes, share)


def _compare(bench: Bench, server: Server, topic: str, size_bytes: int, share: int) -> None:
    servers, many, few = server.address, RECORDS // share, FEW_RECORDS // share
    contenders = {
        "poll": partial(_ours, servers, topic, many),
        "poll, asyncio": partial(_ours_asyncio, servers, topic, many),
        "poll_table": partial(_table, servers, topic, many, views=False),
        "poll_table, views": partial(_table, servers, topic, many, views=True),
        "aiokafka, reading": partial(_aiokafka, servers, topic, few),
        "kafka-python, reading": partial(_kafka_python, servers, topic, few),
        "confluent-kafka, reading": partial(_confluent, servers, topic, many),
        "confluent-kafka, a table of it": partial(_confluent_table, servers, topic, many),
        LIMIT: partial(_raw, server.port, topic, many),
    }
    compare(bench, size_bytes, contenders, GOALS, limited="poll_table", limit=LIMIT)


def _ours(servers: str, topic: str, count: int) -> float:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = _look(consumer.poll(POLL_S))
        began, first = time.perf_counter(), seen
        while seen < count:
            seen += _look(consumer.poll(POLL_S))
        return rate(began, seen - first)


def _ours_asyncio(servers: str, topic: str, count: int) -> float:
    async def run() -> float:
        async with AioConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = _look(await consumer.poll(POLL_S))
            began, first = time.perf_counter(), seen
            while seen < count:
                seen += _look(await consumer.poll(POLL_S))
            return rate(began, seen - first)

    return asyncio.run(run())


def _table(servers: str, topic: str, count: int, *, views: bool) -> float:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = consumer.poll_table(POLL_S, views=views).num_rows
        began, first = time.perf_counter(), seen
        while seen < count:
            seen += consumer.poll_table(POLL_S, views=views).num_rows
        return rate(began, seen - first)


def _look(records: Any) -> int:
    """Touch every value, as an application does."""
    count = 0
    for record in records:
        if record.value is not None:
            count += 1
    return count


def _aiokafka(servers: str, topic: str, count: int) -> float:
    async def run() -> float:
        library: Any = load("aiokafka")
        consumer = library.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([library.TopicPartition(topic, 0)])
        seen, began, first = 0, 0.0, 0
        while seen < count:
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE)
            seen += sum(_look(records) for records in found.values())
            if not first:
                began, first = time.perf_counter(), seen
        found_rate = rate(began, seen - first)
        await consumer.stop()
        return found_rate

    return asyncio.run(run())


def _kafka_python(servers: str, topic: str, count: int) -> float:
    library: Any = load("kafka")
    consumer = library.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([library.TopicPartition(topic, 0)])
    seen, began, first = 0, 0.0, 0
    while seen < count:
        found = consumer.poll(int(POLL_S * 1000), max_records=AT_ONCE)
        seen += sum(_look(records) for records in found.values())
        if not first and seen:
            began, first = time.perf_counter(), seen
    found_rate = rate(began, seen - first)
    consumer.close()
    return found_rate


def _confluent(servers: str, topic: str, count: int) -> float:
    def take(consumer: confluent_kafka.Consumer) -> int:
        messages = consumer.consume(AT_ONCE, POLL_S)
        return sum(message.value() is not None for message in messages)

    return _confluent_rate(servers, topic, count, take)


def _confluent_table(servers: str, topic: str, count: int) -> float:
    """What a user of confluent-kafka does to get a table, with the same columns."""

    def take(consumer: confluent_kafka.Consumer) -> int:
        messages = consumer.consume(ROWS_AT_ONCE, POLL_S)
        columns: list[list[Any]] = [
            [message.topic() for message in messages],
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.timestamp()[1] for message in messages],
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.headers() or [] for message in messages],
        ]
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA).num_rows

    return _confluent_rate(servers, topic, count, take)


def _confluent_rate(
    servers: str, topic: str, count: int, take: Callable[[confluent_kafka.Consumer], int]
) -> float:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 3,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    seen, began, first = 0, 0.0, 0
    while seen < count:
        seen += take(consumer)
        if not first and seen:
            began, first = time.perf_counter(), seen
    found_rate = rate(began, seen - first)
    consumer.close()
    return found_rate


def _raw(port: int, topic: str, count: int) -> float:
    reader = RawReader(port, topic=topic, max_bytes=RAW_BYTES)
    reader.read()
    began, first = time.perf_counter(), reader.offset
    while reader.offset < count:
        reader.read()
    found_rate = rate(began, reader.offset - first)
    reader.close()
    return found_rate
