"""OAUTHBEARER of a listener: settings, and authentication from the first byte on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.authentication.oauth_listeners import offered_oauth
from headwater.broker.authentication.sasl_authenticator import SaslAuthenticator
from headwater.broker.authentication.sasl_listener import OfferedMechanism
from headwater.broker.authentication.sasl_listeners import inter_broker_credentials
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, InvalidSetting
from headwater.common.settings.broker_properties import parse_broker_settings
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.json_web_key_set import read_key_set
from headwater.security.authentication.oauth_bearer_messages import OAuthBearerClientInitialResponse
from tests.simulation.fakes.identity_provider import claims, key_set, published, rsa_key, signed
from tests.simulation.labs.broker_lab import ScriptedClock
from tests.simulation.labs.sasl_authenticator_lab import DELAY_MS, SaslAuthenticatorLab

URL = "sasl.oauthbearer.jwks.endpoint.url"
KEYS = key_set(published(rsa_key("k1"), kid="k1"))
REFUSED = SaslAuthenticateResponse(
    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message='{"status":"invalid_token"}'
)


class Lookups:
    """`BackgroundCalls` whose outcome the test decides."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def __call__(
        self,
        job: Callable[[], Any],  # noqa: ARG002
        *,
        then: Callable[[Any], None],
        on_error: Callable[[BaseException], None],  # noqa: ARG002
    ) -> None:
        self.waiting.append(then)

    def find(self, document: bytes) -> None:
        self.waiting.pop()(read_key_set(document))


def texts(url: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://:1",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        URL: url,
        **more,
    }


def offered(
    settings: Mapping[str, str],
    lab: SaslAuthenticatorLab | None = None,
    lookups: Lookups | None = None,
    max_reauth_ms: int = 0,
) -> OfferedMechanism:
    return offered_oauth(
        parse_broker_settings(settings),
        "SASL_PLAINTEXT",
        max_reauth_ms=max_reauth_ms,
        clock=ScriptedClock() if lab is None else lab.lab.clock,
        timer=Timer() if lab is None else lab.lab.broker.timer,
        background_calls=lookups or Lookups(),
    )


def gate_lab(
    lookups: Lookups,
    settings: Mapping[str, str] | None = None,
    *,
    max_reauth_ms: int = 0,
) -> SaslAuthenticatorLab:
    """An authenticator for tokens, whose key set is being refreshed."""
    lab = SaslAuthenticatorLab()
    lab.listener.mechanisms["OAUTHBEARER"] = offered(  # type: ignore[index]
        settings or texts("http://keys/"), lab, lookups, max_reauth_ms
    )
    lab.gate = SaslAuthenticator(lab.peer, lab.listener, lab.lab.dispatch)
    return lab


def said(lab: SaslAuthenticatorLab, user: str = "alice", **more: object) -> dict[str, object]:
    return claims(user, now_s=lab.lab.clock.now_ms() // 1_000, **more)


def first(token: str) -> bytes:
    return OAuthBearerClientInitialResponse(token=token).encode()


def test_token_authenticates_its_subject_until_it_expires() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lookups.find(KEYS)
    now_s = lab.lab.clock.now_ms() // 1_000
    lab.shake_hands("OAUTHBEARER")
    answer = lab.authenticate(first(signed(said(lab, exp=now_s + 90))))
    lifetime_ms = now_s * 1_000 + 90_000 - lab.lab.clock.now_ms()
    assert answer == SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
    assert str(lab.peer.requester.principal) == "User:alice"
    assert lab.send(MetadataRequest(topics=None)).answer(MetadataResponse).brokers
    lab.lab.pass_time(lifetime_ms + 1)
    with pytest.raises(ConnectionLost, match="has expired"):
        lab.send(MetadataRequest(topics=None))


def test_session_lifetime_is_the_shorter_of_token_and_setting() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups, max_reauth_ms=20_000)
    lookups.find(KEYS)
    lab.shake_hands("OAUTHBEARER")
    assert lab.authenticate(first(signed(said(lab)))).session_lifetime_ms == 20_000


def test_reauthentication_needs_a_token_of_the_same_user() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lookups.find(KEYS)
    lab.shake_hands("OAUTHBEARER")
    lab.authenticate(first(signed(said(lab))))
    lab.lab.pass_time(2_000)
    lab.shake_hands("OAUTHBEARER")
    assert lab.authenticate(first(signed(said(lab)))).session_lifetime_ms > 590_000
    assert lab.listener.counters.renewed == 1
    lab.lab.pass_time(2_000)
    lab.shake_hands("OAUTHBEARER")
    sent = lab.send(SaslAuthenticateRequest(auth_bytes=first(signed(said(lab, "bob")))))
    lab.lab.pass_time(DELAY_MS)
    answer = sent.answer(SaslAuthenticateResponse)
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in (answer.error_message or "")


def test_invalid_token_is_rejected_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    lookups = Lookups()
    lab = gate_lab(lookups, texts("http://keys/", **{"sasl.oauthbearer.expected.audience": "x"}))
    lookups.find(KEYS)
    token = signed(said(lab))
    lab.shake_hands("OAUTHBEARER")
    assert lab.authenticate(first(token)).auth_bytes == b'{"status":"invalid_token"}'
    sent = lab.send(SaslAuthenticateRequest(auth_bytes=b"\x01"))
    lab.lab.pass_time(DELAY_MS)
    assert sent.answer(SaslAuthenticateResponse) == REFUSED
    assert lab.peer.is_draining
    assert lab.listener.counters.failed == 1
    assert "token audience 'headwater' is not expected" in caplog.text
    assert all(part not in caplog.text for part in token.split("."))


def test_authentication_with_an_unknown_key_waits_for_a_refresh() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lookups.find(KEYS)
    lab.shake_hands("OAUTHBEARER")
    token = signed(said(lab), rsa_key("k2"), key_id="k2")
    sent = lab.send(SaslAuthenticateRequest(auth_bytes=first(token)))
    assert not sent.is_answered
    assert sent.is_held
    lookups.find(key_set(published(rsa_key("k2"), kid="k2")))
    assert sent.answer(SaslAuthenticateResponse).error_code is ErrorCode.NONE
    assert str(lab.peer.requester.principal) == "User:alice"


def test_client_that_disconnects_while_it_waits_is_forgotten() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lab.shake_hands("OAUTHBEARER")
    sent = lab.send(SaslAuthenticateRequest(auth_bytes=first(signed(said(lab)))))
    lab.peer.is_closed = True
    lookups.find(KEYS)
    assert not sent.is_answered
    assert lab.listener.counters.succeeded == 0


def test_handshake_v0_token_has_no_header() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lab.shake_hands("OAUTHBEARER", version=0)
    slot = lab.raw(first(signed(said(lab))))
    assert slot.parts is None
    lookups.find(KEYS)
    assert slot.parts == [b"\0\0\0\0"]
    assert str(lab.peer.requester.principal) == "User:alice"


def test_listener_overrides_token_settings(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(KEYS)
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    settings = texts(
        "file:/nowhere",
        **{
            f"{prefix}{URL}": path.as_uri(),
            f"{prefix}sasl.oauthbearer.sub.claim.name": "client",
            f"{prefix}sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        },
    )
    lab = gate_lab(Lookups(), settings)
    lab.shake_hands("OAUTHBEARER")
    lab.authenticate(first(signed(said(lab, client="till"))))
    assert str(lab.peer.requester.principal) == "User:till"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "needs the key set of the token issuer"),
        ("ftp://keys", "must be an https, http or file URL"),
        ("https://user:s3cret@keys/", "must not have a user and password"),
        ("file:/no/such/file", "cannot read file:/no/such/file: No such file"),
    ],
)
def test_invalid_settings_are_rejected_before_startup(url: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        offered(texts(url))
    assert "s3cret" not in str(refused.value)


def test_key_file_without_keys_is_rejected_before_startup(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": []}))
    with pytest.raises(InvalidSetting, match="no usable public key"):
        offered(texts(path.as_uri()))


def test_java_class_is_rejected() -> None:
    settings = texts("file:/keys", **{"sasl.server.callback.handler.class": "com.tea.Validator"})
    with pytest.raises(InvalidSetting, match="cannot be loaded"):
        parse_broker_settings(settings)


def test_inter_broker_authentication_rejects_oauthbearer() -> None:
    settings = texts("file:/k", **{"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"})
    with pytest.raises(InvalidSetting, match="supports PLAIN and SCRAM"):
        inter_broker_credentials(parse_broker_settings(settings), "SASL_PLAINTEXT")
