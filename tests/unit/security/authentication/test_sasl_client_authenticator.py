"""Client authentication over SaslHandshake and SaslAuthenticate, and its settings."""

import random

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import AuthenticationFailed, InvalidSetting, UnsupportedMechanism
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
from headwater.security.authentication.sasl_credentials import Credentials, credentials
from tests.simulation.fakes.seeded_random import SeededRandom

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def rng() -> SeededRandom:
    return SeededRandom(random.Random(1))


def login(mechanism: str = "PLAIN") -> SaslClientAuthenticator:
    return Credentials(mechanism=mechanism, user="alice", password="a-secret").login(rng())


def test_handshake_is_followed_by_tokens_until_complete() -> None:
    begun = login()
    assert begun.begin() == SaslHandshakeRequest(mechanism="PLAIN")
    token = begun.received(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    assert token == SaslAuthenticateRequest(auth_bytes=b"\0alice\0a-secret")
    assert begun.received(SaslAuthenticateResponse(session_lifetime_ms=5_000)) is None
    renewal_ms = begun.renewal_ms()
    assert renewal_ms is not None
    assert 4_250 <= renewal_ms < 4_750


def test_disabled_mechanism_error_lists_the_enabled_ones() -> None:
    response = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("SCRAM-SHA-256",)
    )
    with pytest.raises(UnsupportedMechanism, match="PLAIN; it enables SCRAM-SHA-256"):
        login().received(response)


def test_authentication_error_has_the_broker_s_message() -> None:
    begun = login()
    begun.received(SaslHandshakeResponse())
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(AuthenticationFailed, match="who are you"):
        begun.received(SaslAuthenticateResponse(error_code=code, error_message="who are you"))


def test_broker_with_a_wrong_signature_is_rejected() -> None:
    begun = login("SCRAM-SHA-256")
    begun.received(SaslHandshakeResponse())
    with pytest.raises(AuthenticationFailed):
        begun.received(SaslAuthenticateResponse(auth_bytes=b"v=AAAA"))


def test_reauthentication_is_spread_before_the_end_of_the_session() -> None:
    begun = login()
    begun.received(SaslHandshakeResponse())
    begun.received(SaslAuthenticateResponse(session_lifetime_ms=100_000))
    found = {begun.renewal_ms() for _ in range(100)}
    assert len(found) > 10
    assert all(each is not None and 85_000 <= each < 95_000 for each in found)


def test_session_without_lifetime_is_not_reauthenticated() -> None:
    begun = login()
    begun.received(SaslHandshakeResponse())
    begun.received(SaslAuthenticateResponse())
    assert begun.renewal_ms() is None


def test_credentials_come_from_jaas_or_username_and_password() -> None:
    expected = Credentials(mechanism="SCRAM-SHA-512", user="alice", password="pw")
    text = f'{SCRAM} required username="alice" password="pw";'
    assert credentials("SCRAM-SHA-512", jaas=text, user=None, password=None) == expected
    assert credentials("SCRAM-SHA-512", jaas=None, user="alice", password="pw") == expected


@pytest.mark.parametrize(
    ("mechanism", "jaas", "user", "password", "why"),
    [
        (None, None, "a", "b", "sasl.mechanism must be one of PLAIN"),
        ("GSSAPI", None, "a", "b", "not GSSAPI"),
        ("PLAIN", None, "a", None, "sasl.username and sasl.password"),
        ("PLAIN", None, None, None, "sasl.username and sasl.password"),
        ("PLAIN", f"{SCRAM} required;", "a", "b", "sasl.jaas.config or sasl.username"),
        ("PLAIN", f"{SCRAM} required;", None, None, "names ScramLoginModule"),
        ("PLAIN", None, "a\0b", "c", "NUL"),
    ],
)
def test_invalid_credentials_settings_are_rejected_with_a_reason(
    mechanism: str | None, jaas: str | None, user: str | None, password: str | None, why: str
) -> None:
    with pytest.raises(InvalidSetting, match=why):
        credentials(mechanism, jaas=jaas, user=user, password=password)
