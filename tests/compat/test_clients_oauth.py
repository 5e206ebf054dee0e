"""Clients authenticate with tokens of a local issuer, and get errors."""

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
from tests.compat.clients import TIMEOUT_S
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

# kafka-python keeps retrying after a failure; aiokafka ignores the challenge, sends Metadata, and
# keeps retrying too.
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


def test_clients_authenticate_with_tokens_as_their_subject(
    broker: EmbeddedBroker, provider: IdentityProvider, round_trip: RoundTrip, topic: str
) -> None:
    """Only principals of tokens have permissions here."""
    assert round_trip(login(broker, provider), topic) == b"tea"


@pytest.mark.parametrize("name", TOLD)
def test_clients_get_an_error_for_an_invalid_token(
    broker: EmbeddedBroker, provider: IdentityProvider, name: str, topic: str
) -> None:
    forged = signed(claims(), rsa_key("evil"))
    with pytest.raises(RefusedLogin):
        ROUND_TRIPS[name](login(broker, provider, forged), topic)
    assert "token signature is invalid" in broker.log_text
    assert all(part not in broker.log_text for part in forged.split("."))


def test_new_key_of_the_issuer_is_accepted_with_its_first_token(
    broker: EmbeddedBroker, provider: IdentityProvider, topic: str
) -> None:
    token = signed(claims(), rsa_key("k2"), key_id="k2")
    provider.keys = key_set(published(rsa_key("k1"), kid="k1"), published(rsa_key("k2"), kid="k2"))
    assert ROUND_TRIPS["headwater-oauth-cb"](login(broker, provider, token), topic) == b"tea"


@pytest.mark.parametrize("name", ["confluent", "headwater"])
def test_clients_renew_their_tokens_and_stay_connected(name: str, topic: str) -> None:
    """A session ends with its token; a client that does not re-authenticate is disconnected."""
    with identity_provider() as own, checked_broker(settings(own)) as broker:
        # A shorter lifetime would be renewed twice within a second near its end, which is not
        # allowed.
        own.lifetime_s = 6
        with sending(name, with_issuer(login(broker, own)), topic) as send:
            deadline_s = monotonic() + TIMEOUT_S
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
        producer.send(topic, b"tea").result(TIMEOUT_S)


@pytest.mark.parametrize("is_refused", [True, False])
def test_our_client_reports_why_it_got_no_token(
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
        producer.send(topic, b"tea").result(TIMEOUT_S)
    assert ("401 (invalid_client)" in str(failure.value)) is is_refused
    assert "wr0ng" not in str(failure.value)
