"""How many records a second each client sends: ours beside aiokafka, kafka-python and Confluent's.

All send the same values to the same broker, with acks=all and idempotence, batches of 64 KiB that
linger for 5 ms, and every record has been confirmed when the clock stops. What a reader would get
wrong: broker and client share the machine's cores, so a fast client measures the broker as well.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer as ConfluentProducer

from bench.harness import Bench, in_turn
from bench.processes import broker
from bench.topics import create_topic
from headwater.client import Producer
from headwater.client.aio import Producer as AioProducer
from tests.compat.foreign import load

ROUNDS: Final = 3
TOPIC: Final = "bench"
BATCH_BYTES: Final = 65_536
LINGER_MS: Final = 5
# The slow clients send fewer records, so that a round takes about as long for each.
RECORDS: Final = 200_000
FEW_RECORDS: Final = 40_000
ROWS: Final = 1_000_000

AIOKAFKA_GOAL: Final = 2.0
KAFKA_PYTHON_GOAL: Final = 5.0
CONFLUENT_GOAL: Final = 3.0

Run = Callable[[], float]


def measure(bench: Bench) -> None:
    with broker() as (server, _):
        create_topic(server, TOPIC)
        for size_bytes, share in ((100, 1), (1_024, 4)):
            _compare(bench, server.address, size_bytes, share)


def _compare(bench: Bench, servers: str, size_bytes: int, share: int) -> None:
    """Large values are sent in smaller numbers, by this share."""
    value = bytes(size_bytes)
    contenders: Mapping[str, Run] = {
        "send": partial(_ours, servers, value, RECORDS // share),
        "send, asyncio": partial(_ours_asyncio, servers, value, RECORDS // share),
        "send_table": partial(_table, servers, value, ROWS // share),
        "aiokafka": partial(_aiokafka, servers, value, FEW_RECORDS // share),
        "kafka-python": partial(_kafka_python, servers, value, FEW_RECORDS // share),
        "confluent-kafka": partial(_confluent, servers, value, RECORDS // share),
    }
    rates = {
        label: statistics.median(found) for label, found in in_turn(contenders, ROUNDS).items()
    }
    for label, rate in rates.items():
        bench.record(f"{label}, {size_bytes} B", rate, "records/s")
    for label, against, goal in (
        ("send", "kafka-python", KAFKA_PYTHON_GOAL),
        ("send, asyncio", "aiokafka", AIOKAFKA_GOAL),
        ("send_table", "confluent-kafka", CONFLUENT_GOAL),
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


def _ours(servers: str, value: bytes, count: int) -> float:
    with Producer(bootstrap_servers=servers, batch_size=BATCH_BYTES) as producer:
        producer.send(TOPIC, value).result(30)
        began = time.perf_counter()
        for _ in range(count):
            producer.send(TOPIC, value)
        producer.flush()
        return _rate(began, count)


def _ours_asyncio(servers: str, value: bytes, count: int) -> float:
    async def run() -> float:
        async with AioProducer(bootstrap_servers=servers, batch_size=BATCH_BYTES) as producer:
            await producer.send_and_wait(TOPIC, value)
            began = time.perf_counter()
            for _ in range(count):
                await producer.send(TOPIC, value)
            await producer.flush()
            return _rate(began, count)

    return asyncio.run(run())


def _table(servers: str, value: bytes, count: int) -> float:
    table = pa.table({"value": pa.array([value] * count, pa.binary())})
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_table(TOPIC, table.slice(0, 1)).result(30)
        began = time.perf_counter()
        producer.send_table(TOPIC, table).result()
        return _rate(began, count)


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
        rate = _rate(began, count)
        await producer.stop()
        return rate

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
    rate = _rate(began, count)
    producer.close()
    return rate


def _confluent(servers: str, value: bytes, count: int) -> float:
    # Its own batch limit of a million bytes stays: it is what its users get.
    producer = ConfluentProducer(
        {
            "bootstrap.servers": servers,
            "linger.ms": LINGER_MS,
            "enable.idempotence": True,
            "log_level": 3,
        }
    )
    producer.produce(TOPIC, value)
    producer.flush(30)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(60)
    return _rate(began, count)
