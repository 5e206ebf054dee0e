"""Other clients authenticate with PLAIN and SCRAM, and get errors."""

import gc
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from socket import create_connection
from time import monotonic

import pytest

from headwater.client import Admin, ScramUpsertion
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, scrape
from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load
from tests.compat.sasl_clients import (
    ROUND_TRIPS,
    Login,
    RefusedLogin,
    RoundTrip,
    sending,
    with_headwater,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice, of =tea", 'a "secret", = \\ and ö'
# kafka-python 3.0 does not escape names, and keeps retrying after a failure.
SIMPLE_USER = "alice"
PATIENT = "kafka-python"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.inside.plain.sasl.jaas.config": (
        f'{MODULE} required user_admin="admin-secret" user_tea="tea-secret";'
    ),
    "headwater.metrics.listener": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with checked_broker(SETTINGS) as broker:
        admin = Admin(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{MODULE} required username="admin" password="admin-secret";',
            }
        )
        with admin:
            admin.alter_user_scram_credentials(
                [
                    ScramUpsertion(user=user, password=PASSWORD, mechanism=each)
                    for user in (USER, SIMPLE_USER)
                    for each in MECHANISMS[1:]
                ]
            )
        yield broker


@pytest.fixture(params=list(ROUND_TRIPS.values()), ids=list(ROUND_TRIPS))
def round_trip(request: pytest.FixtureRequest) -> Iterator[RoundTrip]:
    chosen: RoundTrip = request.param
    yield chosen
    with warnings.catch_warnings():
        # As in `conftest`: kafka-python leaves sockets behind that could not connect.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def login(broker: EmbeddedBroker, mechanism: str, user: str = USER) -> Login:
    is_plain = mechanism == "PLAIN"
    return Login(
        servers=broker.bootstrap_servers,
        mechanism=mechanism,
        user="tea" if is_plain else user,
        password="tea-secret" if is_plain else PASSWORD,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_authenticate_and_are_served(
    broker: EmbeddedBroker, round_trip: RoundTrip, mechanism: str, topic: str
) -> None:
    user = SIMPLE_USER if round_trip is ROUND_TRIPS[PATIENT] else USER
    assert round_trip(login(broker, mechanism, user), topic) == b"tea"


@pytest.mark.parametrize("name", [each for each in ROUND_TRIPS if each != PATIENT])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_clients_get_an_error_for_a_wrong_password(
    broker: EmbeddedBroker, name: str, mechanism: str, topic: str
) -> None:
    right = login(broker, mechanism)
    wrong = Login(
        servers=right.servers, mechanism=mechanism, user=right.user, password="another-word"
    )
    with pytest.raises(RefusedLogin):
        ROUND_TRIPS[name](wrong, topic)
    assert "another-word" not in broker.log_text


def test_authentications_are_counted_by_listener(broker: EmbeddedBroker, topic: str) -> None:
    name = 'kafka_server_socketservermetrics_{}_authentication_total{{listener="INSIDE"}}'
    before = scrape(broker)
    right = login(broker, "PLAIN")
    with_headwater(right, topic)
    wrong = Login(servers=right.servers, mechanism="PLAIN", user="tea", password="wrong")
    with pytest.raises(RefusedLogin):
        with_headwater(wrong, topic)
    after = scrape(broker)
    assert after[name.format("failed")] == before.get(name.format("failed"), 0) + 1
    assert after[name.format("successful")] > before.get(name.format("successful"), 0)


def test_large_frame_before_authentication_is_rejected(broker: EmbeddedBroker) -> None:
    """`sasl.server.max.receive.size`."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with closing(create_connection((host, int(port)), TIMEOUT_S)) as client:
        client.sendall(struct.pack(">i", 524_289))
        assert client.recv(1) == b""


def test_client_without_sasl_is_disconnected_with_a_helpful_log_line(
    broker: EmbeddedBroker, topic: str
) -> None:
    confluent = load("confluent_kafka")
    producer = confluent.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "message.timeout.ms": 1_500,
            "api.version.request": False,
            "broker.version.fallback": "0.9.0",
        }
    )
    failed: list[object] = []
    producer.produce(topic, b"v", callback=lambda error, _: failed.append(error))
    producer.flush(TIMEOUT_S)
    assert failed[0] is not None
    assert "before SASL authentication" in broker.log_text
    assert "security.protocol" in broker.log_text


@pytest.mark.parametrize("name", ["confluent", "headwater"])
def test_clients_reauthenticate_and_stay_connected(name: str, topic: str) -> None:
    """KIP-368. A connection that does not is closed, and counted as expired."""
    renewed = 'kafka_server_socketservermetrics_{}_total{{listener="INSIDE"}}'
    settings = {**SETTINGS, "connections.max.reauth.ms": "1200"}
    with checked_broker(settings) as broker:
        who = login(broker, "PLAIN")
        send: Callable[[], object]
        with sending(name, who, topic) as send:
            deadline_s = monotonic() + TIMEOUT_S
            while scrape(broker).get(renewed.format("successful_reauthentication"), 0) < 2:
                assert monotonic() < deadline_s
                send()
        counted = scrape(broker)
    assert counted[renewed.format("expired_connections_killed")] == 0
    assert counted[renewed.format("failed_reauthentication")] == 0
