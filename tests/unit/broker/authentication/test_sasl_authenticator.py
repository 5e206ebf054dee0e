"""SASL authentication of connections, success and failure.

The authenticator runs in front of a whole broker; only the connection is the test's.
"""

import random
from dataclasses import replace

import pytest

from headwater.broker.authentication.sasl_authenticator import (
    SMALL_FRAME_BYTES,
    SaslAuthenticator,
    sasl_authenticator,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, ProtocolError
from headwater.common.principal import ANONYMOUS
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.config_entities import resource_of
from headwater.protocol import codec
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.api_versions import ApiVersionsResponse
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.security.authentication.scram_client import ScramClient
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.sasl_authenticator_lab import (
    DELAY_MS,
    GREETING,
    RECEIVE_BYTES,
    REQUEST_BYTES,
    SHA_256,
    AuthenticatingPeer,
    SaslAuthenticatorLab,
)


def test_authenticated_client_is_served_with_its_principal() -> None:
    lab = SaslAuthenticatorLab()
    assert lab.send(GREETING).answer(ApiVersionsResponse).api_keys
    assert lab.shake_hands() == SaslHandshakeResponse(mechanisms=("PLAIN", "SCRAM-SHA-256"))
    assert lab.peer.requester.principal == ANONYMOUS
    assert lab.authenticate(b"\0alice\0alice-secret") == SaslAuthenticateResponse()
    assert str(lab.peer.requester.principal) == "User:alice"
    assert lab.peer.requester.host == "192.0.2.1"
    assert lab.peer.frame_limit_bytes == REQUEST_BYTES
    assert lab.send(MetadataRequest(topics=None)).answer(MetadataResponse).brokers
    # Some clients send ApiVersions again after authentication.
    assert lab.send(GREETING).answer(ApiVersionsResponse).api_keys
    assert lab.listener.counters.succeeded == 1


def test_scram_takes_two_steps() -> None:
    lab = SaslAuthenticatorLab()
    client = ScramClient(SHA_256, "carol", "carol-secret", SeededRandom(random.Random(9)))
    lab.shake_hands("SCRAM-SHA-256")
    challenge = b""
    while (token := client.respond(challenge)) is not None:
        assert lab.peer.requester.principal == ANONYMOUS
        challenge = lab.authenticate(token).auth_bytes
    assert client.is_complete
    assert str(lab.peer.requester.principal) == "User:carol"


def test_handshake_v0_tokens_have_no_header() -> None:
    lab = SaslAuthenticatorLab()
    lab.shake_hands(version=0)
    assert lab.raw(b"\0alice\0alice-secret").parts == [b"\0\0\0\0"]
    assert str(lab.peer.requester.principal) == "User:alice"
    assert lab.send(MetadataRequest(topics=None)).answer(MetadataResponse).brokers


def test_handshake_v0_with_a_wrong_password_closes_the_connection_after_the_delay() -> None:
    lab = SaslAuthenticatorLab()
    lab.shake_hands(version=0)
    slot = lab.raw(b"\0alice\0wrong")
    assert slot in lab.peer.holds
    assert not lab.peer.is_closed
    lab.lab.pass_time(DELAY_MS)
    assert lab.peer.is_closed


def test_failed_authentication_is_answered_after_a_delay_then_the_connection_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab = SaslAuthenticatorLab()
    lab.shake_hands()
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0my-wrong-secret")
    sent = lab.send(request)
    assert not sent.is_answered
    assert sent.is_held
    lab.lab.pass_time(DELAY_MS - 1)
    assert not sent.is_answered
    lab.lab.pass_time(1)
    assert sent.answer(SaslAuthenticateResponse) == SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message="Authentication failed: Invalid username or password",
    )
    assert lab.peer.is_draining
    assert lab.listener.counters.failed == 1
    (line,) = caplog.messages
    assert "Authentication failed" in line
    assert "192.0.2.1" in line
    assert "wrong-secret" not in line


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_unknown_user_name_is_truncated_and_escaped_in_the_log(
    mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    name = b"x\nERROR all is lost" + b"y" * 10_000
    lab.shake_hands(mechanism)
    if mechanism == "PLAIN":
        lab.authenticate(b"\0" + name + b"\0pw")
    else:
        lab.authenticate(b"n,,n=" + name + b",r=abc")
        lab.authenticate(b"c=biws,r=abc,p=AAAA")
    (line,) = caplog.messages
    assert len(line) < 250
    assert "\n" not in line


def test_client_that_disconnects_during_the_delay_is_forgotten() -> None:
    lab = SaslAuthenticatorLab()
    lab.shake_hands()
    lab.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    lab.peer.is_closed = True
    lab.lab.pass_time(DELAY_MS)
    assert not lab.peer.is_draining


def test_without_a_delay_failure_is_answered_at_once() -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    answer = lab.log_in(b"\0alice\0wrong")
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert lab.peer.is_draining


def test_scram_failure_has_kafkas_message_which_reveals_nothing() -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    lab.shake_hands("SCRAM-SHA-256")
    answer = lab.authenticate(b"garbage")
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256"
    )


def test_disabled_mechanism_is_answered_with_the_enabled_ones() -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    assert lab.shake_hands("GSSAPI") == SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN", "SCRAM-SHA-256")
    )
    assert lab.peer.is_draining


@pytest.mark.parametrize("is_greeted", [False, True])
def test_other_request_before_the_handshake_closes_the_connection(is_greeted: bool) -> None:
    lab = SaslAuthenticatorLab()
    if is_greeted:
        lab.send(GREETING)
    with pytest.raises(ProtocolError, match="before SASL authentication"):
        lab.send(MetadataRequest(topics=None))


def test_api_versions_is_answered_once_before_the_handshake() -> None:
    """A client that used an unknown version sends ApiVersions again."""
    lab = SaslAuthenticatorLab()
    lab.send(GREETING)
    with pytest.raises(ProtocolError, match="before SASL authentication"):
        lab.send(GREETING)


def test_unauthenticated_requests_are_exempt_from_quotas() -> None:
    """All unauthenticated clients would share one, so that one could throttle all others."""
    lab = SaslAuthenticatorLab()
    entity = QuotaEntity(user=DEFAULT)
    lab.lab.change(ConfigsReplaced(resource_of(entity), {"request_percentage": "0.000001"}))
    assert lab.send(GREETING).answer(ApiVersionsResponse).throttle_time_ms == 0
    assert lab.peer.muted_until_ms is None
    lab.log_in()
    assert lab.peer.muted_until_ms is None
    lab.send(GREETING)
    assert lab.peer.muted_until_ms is not None


def test_other_request_during_authentication_is_rejected() -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    lab.shake_hands()
    answer = lab.send(SaslHandshakeRequest(mechanism="PLAIN")).answer(SaslHandshakeResponse)
    assert answer.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert lab.peer.is_draining
    with pytest.raises(ConnectionLost):
        lab.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"))
    assert lab.peer.requester.principal == ANONYMOUS


def test_api_versions_during_authentication_is_rejected() -> None:
    lab = SaslAuthenticatorLab(delay_ms=0)
    lab.shake_hands()
    answer = lab.send(GREETING).answer(ApiVersionsResponse)
    assert answer.error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_other_api_during_authentication_is_rejected_from_its_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large body of an unauthenticated client must cost nothing: no decoder may see it."""
    lab = SaslAuthenticatorLab()
    lab.shake_hands()

    def read_body(*_: object) -> None:
        raise AssertionError("a body was parsed before authentication")

    frame = request_frame(APIS[ApiKey.DESCRIBE_GROUPS], 5, 1, "lab", [b"\xff" * 1_000])
    monkeypatch.setattr(codec, "_translation", read_body)
    slot = lab.raw(b"".join(bytes(part) for part in frame if isinstance(part, bytes))[4:])
    assert slot in lab.peer.holds
    assert not lab.peer.is_closed
    lab.lab.pass_time(DELAY_MS)
    assert lab.peer.is_closed
    assert slot.parts is None
    assert lab.listener.counters.failed == 1


def test_frames_before_authentication_are_small_unless_the_mechanism_has_large_tokens() -> None:
    lab = SaslAuthenticatorLab()
    large = 524_288
    listener = replace(
        lab.listener,
        receive_limit_bytes=large,
        mechanisms={
            **lab.listener.mechanisms,
            "OAUTHBEARER": replace(lab.listener.mechanisms["PLAIN"], has_large_tokens=True),
        },
    )
    for mechanism, expected in (("PLAIN", SMALL_FRAME_BYTES), ("OAUTHBEARER", large)):
        lab.peer = AuthenticatingPeer()
        sasl_authenticator(lab.peer, listener=listener, dispatch=lab.lab.dispatch)
        assert lab.peer.frame_limit_bytes == SMALL_FRAME_BYTES
        lab.gate = SaslAuthenticator(lab.peer, listener, lab.lab.dispatch)
        lab.shake_hands(mechanism)
        assert lab.peer.frame_limit_bytes == expected
        lab.authenticate(b"\0alice\0alice-secret")
        assert lab.peer.frame_limit_bytes == REQUEST_BYTES


def test_sasl_server_max_receive_size_is_a_limit() -> None:
    lab = SaslAuthenticatorLab()
    sasl_authenticator(lab.peer, listener=lab.listener, dispatch=lab.lab.dispatch)
    assert lab.peer.frame_limit_bytes == RECEIVE_BYTES < SMALL_FRAME_BYTES


def test_malformed_bytes_are_a_protocol_error() -> None:
    for content in (b"", b"GET / HTTP/1.1\r\n", bytes(40), b"\0\x12\0\x03"):
        lab = SaslAuthenticatorLab()
        with pytest.raises(ProtocolError):
            lab.raw(content)


def test_unlimited_session_cannot_be_reauthenticated() -> None:
    lab = SaslAuthenticatorLab()
    assert lab.log_in().session_lifetime_ms == 0
    assert lab.shake_hands().error_code is ErrorCode.ILLEGAL_SASL_STATE
    answer = lab.authenticate(b"\0alice\0alice-secret")
    assert answer.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert not lab.peer.is_draining


def test_expired_session_is_closed_at_the_next_request() -> None:
    lab = SaslAuthenticatorLab(max_reauth_ms=10_000)
    assert lab.log_in().session_lifetime_ms == 10_000
    lab.lab.pass_time(10_000)
    assert lab.send(MetadataRequest(topics=None)).is_answered
    lab.lab.pass_time(1)
    with pytest.raises(ConnectionLost, match="has expired"):
        lab.send(MetadataRequest(topics=None))
    assert lab.listener.counters.expired == 1


def test_session_can_be_reauthenticated_before_and_after_it_expires() -> None:
    """KIP-368."""
    lab = SaslAuthenticatorLab(max_reauth_ms=10_000)
    lab.log_in()
    for pause_ms in (9_000, 11_000):
        lab.lab.pass_time(pause_ms)
        assert lab.log_in().session_lifetime_ms == 10_000
        assert lab.send(MetadataRequest(topics=None)).is_answered
    assert (lab.listener.counters.succeeded, lab.listener.counters.renewed) == (1, 2)


def test_reauthentication_is_limited_to_once_per_second() -> None:
    lab = SaslAuthenticatorLab(max_reauth_ms=10_000)
    lab.log_in()
    lab.log_in()
    assert lab.shake_hands().error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_reauthentication_cannot_change_the_principal() -> None:
    lab = SaslAuthenticatorLab(max_reauth_ms=10_000, delay_ms=0)
    lab.log_in()
    answer = lab.log_in(b"\0bob\0bob-secret")
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message is not None
    assert "Cannot change principals" in answer.error_message
    assert str(lab.peer.requester.principal) == "User:alice"
    assert lab.peer.is_draining
    assert lab.listener.counters.not_renewed == 1


def test_reauthentication_cannot_change_the_mechanism() -> None:
    lab = SaslAuthenticatorLab(max_reauth_ms=10_000, delay_ms=0)
    lab.log_in()
    assert not lab.shake_hands("SCRAM-SHA-256").error_code
    answer = lab.authenticate(b"n,,n=carol,r=abc")
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported "
        "for re-authentication of mechanism 'PLAIN'"
    )
