"""Clients that authenticate with SASL: send and receive one record."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from headwater.client import Consumer, Producer
from headwater.client.errors import SaslAuthenticationFailed
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load

aiokafka = load("aiokafka")
confluent = load("confluent_kafka")
kafka = load("kafka")

_TIMEOUT_MS: Final = int(TIMEOUT_S * 1_000)


class RefusedLogin(Exception):
    """The client reports that authentication failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Credentials and where to use them."""

    servers: str
    mechanism: str
    user: str
    password: str


RoundTrip = Callable[[Login, str], bytes | None]


def with_confluent(login: Login, topic: str) -> bytes | None:
    complaints: list[str] = []

    def complain(error: object) -> None:
        complaints.append(str(error))

    settings = {
        "bootstrap.servers": login.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "error_cb": complain,
    }
    producer = confluent.Producer(settings)
    producer.produce(topic, b"tea")
    while producer.flush(0.1):
        if any("_AUTHENTICATION" in each for each in complaints):
            producer.purge()
            raise RefusedLogin(complaints[0])
    consumer = confluent.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found = consumer.consume(1, timeout=TIMEOUT_S)
        value: bytes | None = found[0].value()
        return value
    finally:
        consumer.close()


def with_kafka_python(login: Login, topic: str) -> bytes | None:
    settings = {
        "bootstrap_servers": login.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }
    producer = kafka.KafkaProducer(**settings, max_block_ms=_TIMEOUT_MS)
    try:
        producer.send(topic, b"tea").get(TIMEOUT_S)
    finally:
        producer.close(TIMEOUT_S)
    consumer = kafka.KafkaConsumer(
        topic,
        **settings,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=_TIMEOUT_MS,
    )
    try:
        value: bytes | None = next(consumer).value
        return value
    finally:
        consumer.close()


def with_aiokafka(login: Login, topic: str) -> bytes | None:
    settings = {
        "bootstrap_servers": login.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }

    async def run() -> bytes | None:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"tea")
        except aiokafka.errors.KafkaConnectionError as error:
            raise RefusedLogin(str(error)) from error
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            value: bytes | None = (await consumer.getone()).value
            return value
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def with_headwater(login: Login, topic: str) -> bytes | None:
    settings = {
        "bootstrap.servers": login.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
    }
    try:
        with Producer(settings) as producer:
            producer.send(topic, b"tea").result(TIMEOUT_S)
    except SaslAuthenticationFailed as error:
        raise RefusedLogin(str(error)) from error
    reading = {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(reading) as consumer:
        consumer.subscribe([topic])
        (record,) = consumer.poll(TIMEOUT_S)
        return record.value


@contextmanager
def sending(name: str, login: Login, topic: str) -> Iterator[Callable[[], object]]:
    """A producer of one of two clients, as a function that sends a record and waits for it."""
    settings = {
        "bootstrap.servers": login.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
    }
    if name == "headwater":
        with Producer(settings) as ours:
            yield lambda: ours.send(topic, b"tea").result(TIMEOUT_S)
        return
    theirs = confluent.Producer(settings)

    def send() -> None:
        theirs.produce(topic, b"tea")
        assert theirs.flush(TIMEOUT_S) == 0

    yield send


ROUND_TRIPS: Final[dict[str, RoundTrip]] = {
    "confluent": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "headwater": with_headwater,
}
