"""SASL PLAIN, both sides."""

import pytest

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.plain_mechanism import PlainClient, PlainServer, passwords

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


def broker() -> PlainServer:
    return PlainServer(passwords(USERS))


def test_correct_password_authenticates() -> None:
    server, client = broker(), PlainClient("alice", "alice-secret")
    token = client.respond(b"")
    assert token == b"\0alice\0alice-secret"
    assert client.respond(server.respond(token)) is None
    assert client.is_complete
    assert server.user == "alice"


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0carol\0alice-secret", b"\0bob\0alice-secret", b"\0carol\0\x01"]
)
def test_unknown_user_and_wrong_password_get_the_same_error(token: bytes) -> None:
    server = broker()
    with pytest.raises(SaslAuthenticationFailed) as refused:
        server.respond(token)
    assert refused.value.client_message == "Authentication failed: Invalid username or password"
    assert not server.is_complete


def test_unknown_user_never_authenticates() -> None:
    assert not any(passwords(USERS)("carol", each) for each in ("", "\0", "alice-secret"))


def test_errors_do_not_contain_the_password() -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        broker().respond(b"\0alice\0my-other-secret")
    assert "secret" not in f"{refused.value} {refused.value!r} {refused.value.client_message}"


@pytest.mark.parametrize(
    "token", [b"", b"alice", b"\0alice", b"\0\0secret", b"\0alice\0", b"\0a\0b\0c", b"\xff\0a\0b"]
)
def test_malformed_message_is_rejected(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        broker().respond(token)
    assert refused.value.client_message is None


def test_different_authorization_id_is_rejected() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="different authorization id"):
        broker().respond(b"bob\0alice\0alice-secret")
    assert broker().respond(b"alice\0alice\0alice-secret") == b""


def test_tokens_after_the_end_are_rejected() -> None:
    server, client = broker(), PlainClient("alice", "alice-secret")
    server.respond(b"\0alice\0alice-secret")
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(b"\0alice\0alice-secret")
    client.respond(b"")
    with pytest.raises(SaslAuthenticationFailed):
        client.respond(b"more")
