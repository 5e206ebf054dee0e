"""Clients log in with tokens of an issuer on this machine, and are told when they cannot."""

import gc
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from headwater.client import Producer
from headwater.client.errors import SaslAuthenticationFailed
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, scrape
from tests.compat.clients import PATIENCE_S
from tests.compat.oauth_clients import ROUND_TRIPS, RoundTrip, TokenLogin, sending, with_issuer
from tests.compat.sasl_clients import RefusedLogin
from tests.simulation.fakes.identity_provider import (
    AUDIENCE,
    ISSUER,
    IdentityProvider,
    claims,
    identity_provider,
    key_set,
    published,
    rsa_key,
    signed,
)

# kafka-python goes on trying when it is refused; aiokafka takes a doubt for a welcome, asks for
# metadata, and goes on trying too.
TOLD = ("confluent-oauth-cb", "headwater-oauth-cb")
RENEWED = 'kafka_server_socketservermetrics_{}_total{{listener="SASL_PLAINTEXT"}}'


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def settings(provider: IdentityProvider) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:till",
        "headwater.metrics.listener": "127.0.0.1:0",
    }


@pytest.fixture(scope="module")
def broker(provider: IdentityProvider) -> Iterator[EmbeddedBroker]:
    with checked_broker(settings(provider)) as broker:
        yield broker


@pytest.fixture(params=list(ROUND_TRIPS.values()), ids=list(ROUND_TRIPS))
def round_trip(request: pytest.FixtureRequest) -> Iterator[RoundTrip]:
    chosen: RoundTrip = request.param
    yield chosen
    with warnings.catch_warnings():
        # As in `conftest`: kafka-python leaves sockets behind that could not connect.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def login(
    broker: EmbeddedBroker, provider: IdentityProvider, token: str | None = None
) -> TokenLogin:
    def give() -> tuple[str, float]:
        return token or signed(claims()), time.time() + 600

    return TokenLogin(servers=broker.bootstrap_servers, token=give, provider=provider)


def test_clients_log_in_with_tokens_and_are_who_these_say(
    broker: EmbeddedBroker, provider: IdentityProvider, round_trip: RoundTrip, topic: str
) -> None:
    """Only those whom tokens are about may do anything here."""
    assert round_trip(login(broker, provider), topic) == b"tea"


@pytest.mark.parametrize("name", TOLD)
def test_clients_hear_that_their_token_is_not_taken(
    broker: EmbeddedBroker, provider: IdentityProvider, name: str, topic: str
) -> None:
    forged = signed(claims(), rsa_key("evil"))
    with pytest.raises(RefusedLogin):
        ROUND_TRIPS[name](login(broker, provider, forged), topic)
    assert "a token with a wrong signature" in broker.log_text
    assert all(part not in broker.log_text for part in forged.split("."))


def test_a_new_key_of_the_issuer_is_taken_from_its_first_token_on(
    broker: EmbeddedBroker, provider: IdentityProvider, topic: str
) -> None:
    token = signed(claims(), rsa_key("k2"), key_id="k2")
    provider.keys = key_set(published(rsa_key("k1"), kid="k1"), published(rsa_key("k2"), kid="k2"))
    assert ROUND_TRIPS["headwater-oauth-cb"](login(broker, provider, token), topic) == b"tea"


@pytest.mark.parametrize("name", ["confluent", "headwater"])
def test_clients_renew_their_tokens_and_are_served_on(name: str, topic: str) -> None:
    """The login of a token ends with it; a client that did not renew it would be cut off."""
    with identity_provider() as own, checked_broker(settings(own)) as broker:
        # A shorter one would be renewed twice in a second near its end, which is once too often.
        own.lifetime_s = 6
        with sending(name, with_issuer(login(broker, own)), topic) as send:
            deadline_s = monotonic() + PATIENCE_S
            while scrape(broker).get(RENEWED.format("successful_reauthentication"), 0) < 1:
                assert monotonic() < deadline_s
                send()
        counted = scrape(broker)
    assert counted[RENEWED.format("expired_connections_killed")] == 0
    assert counted[RENEWED.format("failed_reauthentication")] == 0
    assert len(own.forms) >= 2


def test_our_client_reads_its_token_from_a_file(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(signed(claims()))
    chosen = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
    }
    with Producer(chosen) as producer:
        producer.send(topic, b"tea").result(PATIENCE_S)


@pytest.mark.parametrize("is_refused", [True, False])
def test_our_client_says_why_it_got_no_token(
    broker: EmbeddedBroker, provider: IdentityProvider, topic: str, is_refused: bool
) -> None:
    chosen = {**with_issuer(login(broker, provider)), "sasl.login.retry.backoff.max.ms": 1}
    if is_refused:
        chosen["sasl.oauthbearer.client.secret"] = "wr0ng"
    else:
        chosen["sasl.oauthbearer.token.endpoint.url"] = "http://127.0.0.1:1/token"
    with (
        Producer(chosen) as producer,
        pytest.raises(SaslAuthenticationFailed, match="no OAuth token") as failure,
    ):
        producer.send(topic, b"tea").result(PATIENCE_S)
    assert ("401 (invalid_client)" in str(failure.value)) is is_refused
    assert "wr0ng" not in str(failure.value)
