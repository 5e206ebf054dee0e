"""OAUTHBEARER for any input: messages survive a round trip, and invalid ones are rejected."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.json_web_key_set import (
    JsonWebKeySet,
    read_key_set,
    token_header,
)
from headwater.security.authentication.oauth_bearer import OAuthBearerServer, OAuthBearerToken
from headwater.security.authentication.oauth_bearer_messages import (
    OAuthBearerClientInitialResponse,
    read_client_first,
)
from headwater.security.authentication.oauth_token_validator import OAuthTokenValidator
from tests.simulation.fakes.identity_provider import key_set, published, rsa_key

TOKENS = st.text(string.ascii_letters + string.digits + "._-~+/", min_size=1)
NAMES = st.text(string.ascii_letters, min_size=1).filter(lambda name: name != "auth")
VALUES = st.text(string.ascii_letters + string.digits + " !~=,\t", min_size=1)
USERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "iss", "scope"]), JSON)


@given(token=TOKENS, user=USERS, extensions=st.dictionaries(NAMES, VALUES, max_size=3))
def test_first_message_survives_a_round_trip(
    token: str, user: str, extensions: dict[str, str]
) -> None:
    said = OAuthBearerClientInitialResponse(
        token=token, authorization_id=user, extensions=extensions
    )
    assert read_client_first(said.encode()) == said


@given(
    messages=st.lists(
        st.binary() | TOKENS.map(lambda t: OAuthBearerClientInitialResponse(token=t).encode())
    )
)
def test_arbitrary_messages_are_answered_or_rejected_and_never_authenticate(
    messages: list[bytes],
) -> None:
    keys = known_keys()
    server = OAuthBearerServer(
        lambda token: OAuthTokenValidator().validate(keys.verified(token), 0)
    )
    try:
        for message in messages:
            server.respond(message)
    except SaslAuthenticationFailed:
        pass
    assert not server.is_complete


@given(claims=CLAIMS, now_ms=st.integers(0, 2**50))
def test_arbitrary_claims_are_accepted_or_rejected(claims: dict[str, object], now_ms: int) -> None:
    rules = OAuthTokenValidator(audiences=("a",), issuer="b")
    try:
        found = rules.validate(claims, now_ms)
    except SaslAuthenticationFailed:
        return
    assert isinstance(found, OAuthBearerToken)
    assert found.user == claims["sub"]
    assert found.expires_ms > now_ms


@given(token=st.text())
def test_arbitrary_text_is_a_token_or_rejected(token: str) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        known_keys().verified(token)


@given(document=st.binary() | JSON.map(lambda value: repr(value).encode()))
def test_arbitrary_header_is_parsed_or_rejected(document: bytes) -> None:
    try:
        token_header(document.decode("latin-1") + ".a.b")
    except SaslAuthenticationFailed:
        return


def known_keys() -> JsonWebKeySet:
    return read_key_set(key_set(published(rsa_key("k1"), kid="k1")))
