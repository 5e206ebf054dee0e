"""How many records a second each client reads: ours beside aiokafka, kafka-python and Confluent's.

All read the same records of one partition from the same broker, 500 at a time, and look at every
value. What a reader would get wrong: our table has no object per record, so nothing looks at its
values; what is compared is the work until an application can have them.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import confluent_kafka
import pyarrow as pa

from bench.harness import Bench, in_turn
from bench.processes import broker
from bench.topics import create_topic
from headwater.client import Consumer, Producer, TopicPartition
from headwater.client.aio import Consumer as AioConsumer
from tests.compat.foreign import load

ROUNDS: Final = 3
AT_ONCE: Final = 500
# The slow clients read fewer records, so that a round takes about as long for each.
RECORDS: Final = 400_000
FEW_RECORDS: Final = 60_000
POLL_S: Final = 10.0

AIOKAFKA_GOAL: Final = 2.0
KAFKA_PYTHON_GOAL: Final = 5.0
CONFLUENT_GOAL: Final = 3.0

Run = Callable[[], float]


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        for size_bytes, share in ((100, 1), (1_024, 4)):
            topic = f"bench-{size_bytes}"
            create_topic(server, topic)
            table = pa.table({"value": pa.array([bytes(size_bytes)] * (RECORDS // share))})
            with Producer(bootstrap_servers=server.address) as producer:
                producer.send_table(topic, table).result()
            _compare(bench, server.address, topic, size_bytes, share)


def _compare(bench: Bench, servers: str, topic: str, size_bytes: int, share: int) -> None:
    """Large values are read in smaller numbers, by this share."""
    many, few = RECORDS // share, FEW_RECORDS // share
    contenders: Mapping[str, Run] = {
        "poll": partial(_ours, servers, topic, many),
        "poll, asyncio": partial(_ours_asyncio, servers, topic, many),
        "poll_table": partial(_table, servers, topic, many),
        "aiokafka, reading": partial(_aiokafka, servers, topic, few),
        "kafka-python, reading": partial(_kafka_python, servers, topic, few),
        "confluent-kafka, reading": partial(_confluent, servers, topic, many),
    }
    rates = {
        label: statistics.median(found) for label, found in in_turn(contenders, ROUNDS).items()
    }
    for label, rate in rates.items():
        bench.record(f"{label}, {size_bytes} B", rate, "records/s")
    for label, against, goal in (
        ("poll", "kafka-python, reading", KAFKA_PYTHON_GOAL),
        ("poll, asyncio", "aiokafka, reading", AIOKAFKA_GOAL),
        ("poll_table", "confluent-kafka, reading", CONFLUENT_GOAL),
    ):
        bench.record(
            f"{label}, {size_bytes} B, times {against}",
            rates[label] / rates[against],
            "x",
            compared_with=against,
            at_least=goal,
        )


def _rate(began: float, count: int) -> float:
    return count / (time.perf_counter() - began)


def _ours(servers: str, topic: str, count: int) -> float:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = _look(consumer.poll(POLL_S))
        began, first = time.perf_counter(), seen
        while seen < count:
            seen += _look(consumer.poll(POLL_S))
        return _rate(began, seen - first)


def _ours_asyncio(servers: str, topic: str, count: int) -> float:
    async def run() -> float:
        async with AioConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = _look(await consumer.poll(POLL_S))
            began, first = time.perf_counter(), seen
            while seen < count:
                seen += _look(await consumer.poll(POLL_S))
            return _rate(began, seen - first)

    return asyncio.run(run())


def _table(servers: str, topic: str, count: int) -> float:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = consumer.poll_table(POLL_S).num_rows
        began, first = time.perf_counter(), seen
        while seen < count:
            seen += consumer.poll_table(POLL_S).num_rows
        return _rate(began, seen - first)


def _look(records: Any) -> int:
    """Touch every value, as any application does."""
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
        rate = _rate(began, seen - first)
        await consumer.stop()
        return rate

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
    rate = _rate(began, seen - first)
    consumer.close()
    return rate


def _confluent(servers: str, topic: str, count: int) -> float:
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
        for message in consumer.consume(AT_ONCE, POLL_S):
            if message.value() is not None:
                seen += 1
        if not first and seen:
            began, first = time.perf_counter(), seen
    rate = _rate(began, seen - first)
    consumer.close()
    return rate
