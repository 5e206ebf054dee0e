"""OAUTHBEARER messages, and both sides of the exchange."""

import pytest

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.oauth_bearer import (
    OAuthBearerClient,
    OAuthBearerCredentials,
    OAuthBearerServer,
    OAuthBearerToken,
)
from headwater.security.authentication.oauth_bearer_messages import (
    TOKEN_CHARACTERS_MAX,
    OAuthBearerClientInitialResponse,
    read_client_first,
)

GOOD = b"n,,\x01auth=Bearer a.b.c\x01\x01"


def validate(token: str) -> OAuthBearerToken:
    if token != "a.b.c":
        raise SaslAuthenticationFailed("an odd token")
    return OAuthBearerToken(user="alice", expires_ms=5_000)


def test_client_first_message_follows_rfc_7628() -> None:
    assert OAuthBearerClientInitialResponse(token="a.b.c").encode() == GOOD
    assert OAuthBearerClientInitialResponse(
        token="a.b.c", authorization_id="x=,y", extensions={"traceId": "7 8"}
    ).encode() == (b"n,a=x=3D=2Cy,\x01auth=Bearer a.b.c\x01traceId=7 8\x01\x01")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER  "])
def test_client_first_message_of_other_clients_is_parsed(scheme: str) -> None:
    message = f"n,a=x=3D=2Cy,\x01host=h\x01auth={scheme} a.b-_~+/c==\x01port=9\x01\x01".encode()
    assert read_client_first(message) == OAuthBearerClientInitialResponse(
        token="a.b-_~+/c==", authorization_id="x=,y", extensions={"host": "h", "port": "9"}
    )


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "malformed OAUTHBEARER message"),
        (b"\x01", "malformed OAUTHBEARER message"),
        (b"y,,\x01auth=Bearer a\x01\x01", "malformed OAUTHBEARER message"),
        (b"n,,\x01auth=Bearer a\x01", "malformed OAUTHBEARER message"),
        (b"n,,auth=Bearer a\x01\x01", "malformed OAUTHBEARER message"),
        (b"n,,\x01auth=Bearer a\x01\x01\x01", "malformed OAUTHBEARER message"),
        (b"n,,\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Basic a\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "no bearer token"),
        (b"n,,\x01host=h\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", "duplicate key"),
        (b"n,,\x01auth=Bearer a\x01h1=x\x01\x01", "not name=value"),
        (b"n,,\x01auth=Bearer a\x01h\x01\x01", "not name=value"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "not valid UTF-8"),
        (
            b"n,,\x01auth=Bearer " + b"a" * (TOKEN_CHARACTERS_MAX + 1) + b"\x01\x01",
            "has 65537 characters",
        ),
    ],
)
def test_malformed_client_first_message_is_rejected(message: bytes, why: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=why):
        OAuthBearerServer(validate).respond(message)


def test_session_expires_with_the_token() -> None:
    client, server = (
        OAuthBearerClient(OAuthBearerClientInitialResponse(token="a.b.c")),
        OAuthBearerServer(validate),
    )
    message = client.respond(b"")
    assert message == GOOD
    assert server.respond(message) == b""
    assert (server.user, server.is_complete, server.expires_ms) == ("alice", True, 5_000)
    assert client.respond(b"") is None
    assert client.is_complete


def test_invalid_token_fails_after_the_client_has_acknowledged_the_error() -> None:
    client, server = (
        OAuthBearerClient(OAuthBearerClientInitialResponse(token="x.y.z")),
        OAuthBearerServer(validate),
    )
    message = client.respond(b"")
    assert message is not None
    answer = server.respond(message)
    assert answer == b'{"status":"invalid_token"}'
    assert not server.is_complete
    response = client.respond(answer)
    assert response == b"\x01"
    assert not client.is_complete
    with pytest.raises(SaslAuthenticationFailed, match="an odd token") as refused:
        server.respond(response)
    assert refused.value.client_message == '{"status":"invalid_token"}'


def test_valid_token_after_an_invalid_one_is_rejected() -> None:
    server = OAuthBearerServer(validate)
    server.respond(b"n,,\x01auth=Bearer bad\x01\x01")
    with pytest.raises(SaslAuthenticationFailed, match="an odd token"):
        server.respond(GOOD)
    assert not server.is_complete


def test_different_authorization_id_is_rejected() -> None:
    with pytest.raises(
        SaslAuthenticationFailed, match="'alice' requested a different authorization id"
    ):
        OAuthBearerServer(validate).respond(b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01")
    server = OAuthBearerServer(validate)
    server.respond(b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01")
    assert server.user == "alice"


def test_messages_after_the_end_are_rejected_on_both_sides() -> None:
    server = OAuthBearerServer(validate)
    server.respond(GOOD)
    with pytest.raises(
        SaslAuthenticationFailed, match="after OAUTHBEARER authentication completed"
    ):
        server.respond(GOOD)
    client = OAuthBearerClient(OAuthBearerClientInitialResponse(token="a"))
    client.respond(b"")
    client.respond(b"{}")
    with pytest.raises(SaslAuthenticationFailed, match="continued"):
        client.respond(b"{}")


def test_repr_hides_the_token() -> None:
    for each in (
        OAuthBearerClientInitialResponse(token="a.b.c"),
        OAuthBearerCredentials(token="a.b.c"),
    ):
        assert "a.b.c" not in repr(each)
