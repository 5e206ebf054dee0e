"""Clients that authenticate with OAUTHBEARER: send and receive one record."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headwater.client import Consumer, Producer
from headwater.client.errors import SaslAuthenticationFailed
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load
from tests.compat.sasl_clients import RefusedLogin
from tests.simulation.fakes.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider

aiokafka = load("aiokafka")
aiokafka_abc = load("aiokafka.abc")
confluent = load("confluent_kafka")
kafka = load("kafka")
kafka_oauth = load("kafka.net.sasl.oauth")

_TIMEOUT_MS: Final = int(TIMEOUT_S * 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """Where to authenticate, and where tokens come from: a function, or an issuer."""

    servers: str
    # A token and its expiry time, in seconds.
    token: Callable[[], tuple[str, float]]
    provider: IdentityProvider


RoundTrip = Callable[[TokenLogin, str], bytes | None]


def _librdkafka(login: TokenLogin, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": login.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **more,
    }


def with_oauth_cb(login: TokenLogin) -> dict[str, Any]:
    """Settings that confluent-kafka and our clients share."""
    return _librdkafka(login, {"oauth_cb": lambda _: login.token()})


def with_issuer(login: TokenLogin) -> dict[str, Any]:
    return _librdkafka(
        login,
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": login.provider.token_url,
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.scope": "tea",
        },
    )


def by_confluent(settings: dict[str, Any], topic: str) -> bytes | None:
    complaints: list[str] = []
    producer = confluent.Producer({**settings, "error_cb": lambda e: complaints.append(str(e))})
    producer.produce(topic, b"tea")
    while producer.flush(0.1):
        if any("_AUTHENTICATION" in each for each in complaints):
            producer.purge()
            raise RefusedLogin(complaints[0])
    consumer = confluent.Consumer({**settings, "group.id": topic})
    try:
        consumer.assign([confluent.TopicPartition(topic, 0, 0)])
        value: bytes | None = consumer.consume(1, timeout=TIMEOUT_S)[0].value()
        return value
    finally:
        consumer.close()


def by_headwater(settings: dict[str, Any], topic: str) -> bytes | None:
    try:
        with Producer(settings) as producer:
            producer.send(topic, b"tea").result(TIMEOUT_S)
    except SaslAuthenticationFailed as error:
        raise RefusedLogin(str(error)) from error
    with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        (record,) = consumer.poll(TIMEOUT_S)
        return record.value


def by_kafka_python(login: TokenLogin, topic: str) -> bytes | None:
    class Provider(kafka_oauth.AbstractTokenProvider):  # type: ignore[name-defined, misc]
        def token(self) -> str:
            return login.token()[0]

        def extensions(self) -> dict[str, str]:
            return {"traceId": "7"}

    settings = {
        "bootstrap_servers": login.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    producer = kafka.KafkaProducer(**settings, max_block_ms=_TIMEOUT_MS)
    try:
        producer.send(topic, b"tea").get(TIMEOUT_S)
    finally:
        producer.close(TIMEOUT_S)
    consumer = kafka.KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=_TIMEOUT_MS
    )
    try:
        value: bytes | None = next(consumer).value
        return value
    finally:
        consumer.close()


def by_aiokafka(login: TokenLogin, topic: str) -> bytes | None:
    class Provider(aiokafka_abc.AbstractTokenProvider):  # type: ignore[name-defined, misc]
        async def token(self) -> str:
            return login.token()[0]

    settings = {
        "bootstrap_servers": login.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    async def run() -> bytes | None:
        producer = aiokafka.AIOKafkaProducer(**settings, sasl_oauth_token_provider=Provider())
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"tea")
        except aiokafka.errors.KafkaConnectionError as error:
            raise RefusedLogin(str(error)) from error
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings, sasl_oauth_token_provider=Provider(), auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            value: bytes | None = (await consumer.getone()).value
            return value
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


@contextmanager
def sending(name: str, settings: dict[str, Any], topic: str) -> Iterator[Callable[[], object]]:
    """A producer of one of two clients, as a function that sends a record and waits for it."""
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
    "confluent-oauth-cb": lambda login, topic: by_confluent(with_oauth_cb(login), topic),
    "confluent-oidc": lambda login, topic: by_confluent(with_issuer(login), topic),
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "headwater-oauth-cb": lambda login, topic: by_headwater(with_oauth_cb(login), topic),
    "headwater-oidc": lambda login, topic: by_headwater(with_issuer(login), topic),
}
