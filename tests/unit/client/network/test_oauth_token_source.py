"""Token sources of clients; no secret appears in any message."""

import base64
import json
from pathlib import Path

import pytest

from headwater.client.network.oauth_token_source import (
    Token,
    TokenSource,
    called_back,
    token_end_ms,
)
from headwater.client.settings import ClientSettings, login_of, read_settings
from headwater.common.exceptions import HttpFetchFailed, InvalidSetting
from tests.simulation.fakes.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    IdentityProvider,
    claims,
    identity_provider,
    signed,
)

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BASE = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
}


def source(**more: object) -> TokenSource:
    given = {name.replace("__", "."): value for name, value in more.items()}
    found = login_of(read_settings(ClientSettings, {**BASE, **given}, {}))
    assert isinstance(found, TokenSource)
    return found


def settings_of(provider: IdentityProvider, **more: object) -> dict[str, object]:
    return {
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
        "sasl.login.retry.backoff.ms": 1,
        **more,
    }


@pytest.mark.parametrize(
    "who",
    [
        {
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.scope": "read write",
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.scope": "read write",
        },
        {
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.jaas.config": (
                f'{MODULE} required clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" '
                'scope="read write";'
            ),
        },
    ],
    ids=["kafka", "librdkafka", "jaas"],
)
def test_a_token_is_requested_with_settings_of_kafka_or_librdkafka(who: dict[str, object]) -> None:
    with identity_provider() as provider:
        found = source(**{"sasl.oauthbearer.token.endpoint.url": provider.token_url, **who})
        token = found.obtain()
    assert token.expires_ms == token_end_ms(token.credentials.token)
    assert provider.forms == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]


def test_a_failing_token_endpoint_is_retried() -> None:
    with identity_provider() as provider:
        provider.failures = [503, 500]
        assert source(**settings_of(provider)).obtain().expires_ms
    assert len(provider.asked) == 3


def test_retries_of_a_token_endpoint_are_limited() -> None:
    with identity_provider() as provider:
        provider.failures = [503] * 1_000
        found = source(**settings_of(provider, **{"sasl.login.retry.backoff.max.ms": 20}))
        with pytest.raises(HttpFetchFailed, match=r"503 \(temporarily_unavailable\)"):
            found.obtain()


def test_a_wrong_secret_is_not_retried_and_never_shown() -> None:
    wrong = {"sasl.oauthbearer.client.credentials.client.secret": "wr0ng"}
    with identity_provider() as provider:
        settings = read_settings(ClientSettings, {**BASE, **settings_of(provider, **wrong)}, {})
        found = login_of(settings)
        assert isinstance(found, TokenSource)
        with pytest.raises(HttpFetchFailed, match=r"401 \(invalid_client\)$") as failure:
            found.obtain()
    assert provider.asked == ["/token"]
    encoded = base64.b64encode(f"{CLIENT_ID}:wr0ng".encode()).decode()
    for text in (repr(settings), repr(found), str(failure.value)):
        assert "wr0ng" not in text
        assert encoded not in text


def test_a_token_is_read_from_a_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    found = source(sasl__oauthbearer__token__endpoint__url=path.as_uri())
    with pytest.raises(HttpFetchFailed, match="No such file"):
        found.obtain()
    for now_s in (1_000, 2_000):
        text = signed(claims(now_s=now_s))
        path.write_text(f"{text}\n")
        token = found.obtain()
        assert (token.credentials.token, token.expires_ms) == (text, (now_s + 600) * 1_000)
    path.write_text("what is this?")
    with pytest.raises(HttpFetchFailed, match=r"returned a malformed token$"):
        found.obtain()


def test_oauth_cb_returns_a_token_and_its_expiry_as_in_confluent_kafka() -> None:
    asked: list[str] = []

    def give(text: str) -> tuple[str, float]:
        asked.append(text)
        return "a.b.c", 12.5

    found = source(oauth_cb=give, **{"sasl.oauthbearer.config": "principal=me"})
    token = found.obtain()
    assert (token.credentials.token, token.expires_ms) == ("a.b.c", 12_500)
    assert asked == ["principal=me"]


def test_oauth_cb_may_return_principal_and_extensions() -> None:
    def extensions(token: Token) -> dict[str, str]:
        return dict(token.credentials.extensions)

    assert extensions(called_back(("t", 1, "me"), {"a": "1"})) == {"a": "1"}
    assert extensions(called_back(("t", 1, "me", {"b": "2"}), {"a": "1"})) == {"a": "1", "b": "2"}
    assert extensions(called_back(["t", 1, None, None], {})) == {}


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        "token",
        ("token",),
        ("token", "soon"),
        (b"token", 1),
        ("a b", 1),
        ("", 1),
        ("token", 1, "me", {"auth": "x"}),
        ("token", 1, "me", {"a": "\x01"}),
    ],
)
def test_an_invalid_result_of_oauth_cb_is_rejected(given: object) -> None:
    with pytest.raises(HttpFetchFailed, match=r"^oauth_cb"):
        called_back(given, {})


def test_extensions_come_from_settings_and_from_jaas() -> None:
    found = source(
        oauth_cb=lambda _: ("t", 1),
        **{
            "sasl.oauthbearer.extensions": "logicalCluster=lkc,pool=p",
            "sasl.jaas.config": f'{MODULE} required extension_trace="7";',
        },
    )
    assert found.obtain().credentials.extensions == {
        "logicalCluster": "lkc",
        "pool": "p",
        "trace": "7",
    }


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "OAUTHBEARER requires"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://a/"}, "client.credentials.client.secret"),
        ({"sasl.oauthbearer.token.endpoint.url": "a"}, "must be an https, http or file URL"),
        ({"oauth_cb": 7}, "oauth_cb must be a function"),
        ({"oauth_cb": print, "sasl.oauthbearer.token.endpoint.url": "file:/a"}, "not both"),
        ({"oauth_cb": print, "sasl.oauthbearer.extensions": "auth=x"}, "an OAUTHBEARER extension"),
        ({"oauth_cb": print, "sasl.jaas.config": "PlainLoginModule required;"}, "not Plain"),
        ({"sasl.login.callback.handler.class": "com.tea.Mine"}, "cannot be loaded"),
    ],
)
def test_incomplete_token_settings_are_rejected(more: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why):
        source(**more)


def test_the_expiry_is_read_from_a_jwt_if_present() -> None:
    def token(said: object) -> str:
        return f"a.{base64.urlsafe_b64encode(json.dumps(said).encode()).decode()}.c"

    assert token_end_ms(token({"exp": 7})) == 7_000
    for text in ("", "a.b.c", "a.!.c", token([]), token({}), token({"exp": "7"})):
        assert token_end_ms(text) is None
