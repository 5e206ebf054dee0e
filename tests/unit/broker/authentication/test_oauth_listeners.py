"""OAUTHBEARER of a listener: what settings say, and a login from the first byte to its end."""

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
    """`Errands` whose outcome the test decides."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def __call__(
        self,
        job: Callable[[], Any],  # noqa: ARG002
        *,
        then: Callable[[Any], None],
        otherwise: Callable[[BaseException], None],  # noqa: ARG002
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
    """A gate that takes tokens, and keys that are being looked up."""
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


def test_a_token_logs_in_as_whom_it_is_about_until_it_ends() -> None:
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


def test_a_login_holds_for_the_shorter_of_token_and_setting() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups, max_reauth_ms=20_000)
    lookups.find(KEYS)
    lab.shake_hands("OAUTHBEARER")
    assert lab.authenticate(first(signed(said(lab)))).session_lifetime_ms == 20_000


def test_a_login_is_renewed_by_a_new_token_of_the_same_user_only() -> None:
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


def test_a_bad_token_is_told_and_then_refused_and_no_log_shows_it(
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
    assert lab.peer.is_leaving
    assert lab.listener.counters.failed == 1
    assert "token audience 'headwater' is not expected" in caplog.text
    assert all(part not in caplog.text for part in token.split("."))


def test_a_login_with_an_unknown_key_waits_for_a_lookup_and_nothing_else_is_served() -> None:
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


def test_a_peer_that_hangs_up_while_it_waits_is_forgotten() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lab.shake_hands("OAUTHBEARER")
    sent = lab.send(SaslAuthenticateRequest(auth_bytes=first(signed(said(lab)))))
    lab.peer.is_closed = True
    lookups.find(KEYS)
    assert not sent.is_answered
    assert lab.listener.counters.succeeded == 0


def test_an_old_client_sends_its_token_without_headers() -> None:
    lookups = Lookups()
    lab = gate_lab(lookups)
    lab.shake_hands("OAUTHBEARER", version=0)
    slot = lab.raw(first(signed(said(lab))))
    assert slot.parts is None
    lookups.find(KEYS)
    assert slot.parts == [b"\0\0\0\0"]
    assert str(lab.peer.requester.principal) == "User:alice"


def test_a_listener_may_have_rules_of_its_own(tmp_path: Path) -> None:
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
        ("ftp://keys", "must be a URL of https, http or file"),
        ("https://user:s3cret@keys/", "would be shown in logs"),
        ("file:/no/such/file", "cannot read file:/no/such/file: No such file"),
    ],
)
def test_settings_that_cannot_serve_are_told_before_anything_is_served(url: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        offered(texts(url))
    assert "s3cret" not in str(refused.value)


def test_a_file_without_keys_is_told_before_anything_is_served(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": []}))
    with pytest.raises(InvalidSetting, match="no usable public key"):
        offered(texts(path.as_uri()))


def test_a_class_for_the_java_machine_is_refused() -> None:
    settings = texts("file:/keys", **{"sasl.server.callback.handler.class": "com.tea.Anybody"})
    with pytest.raises(InvalidSetting, match="cannot be loaded"):
        parse_broker_settings(settings)


def test_brokers_do_not_log_in_at_each_other_with_tokens() -> None:
    settings = texts("file:/k", **{"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"})
    with pytest.raises(InvalidSetting, match="supports PLAIN and SCRAM"):
        inter_broker_credentials(parse_broker_settings(settings), "SASL_PLAINTEXT")
