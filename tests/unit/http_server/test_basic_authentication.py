"""Basic authentication of HTTP ports: users files, and settings under Confluent's names."""

import base64
from pathlib import Path

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.http_server.basic_authentication import Users
from headwater.http_server.http_settings import HttpAddress, read_http_settings

USERS = b"alice: secret,admin\nbob: other, reader , writer\n"


def header(text: str, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(text.encode()).decode()}"


def test_user_needs_the_right_password() -> None:
    users = Users.read(USERS)
    assert users.authenticate(header("alice:secret")) == "alice"
    assert users.authenticate(header("alice:secret", "bAsIc")) == "alice"
    for wrong in (
        header("alice:secre"),
        header("alice:secret,admin"),
        header("alice:"),
        header("alice"),
        header("carol:secret"),
        header("carol:"),
        header(":"),
        header("alice:secret", "Bearer"),
        "Basic !!!",
        "Basic",
        "",
        None,
    ):
        assert users.authenticate(wrong) is None, wrong


def test_password_may_have_colons_and_any_letters() -> None:
    users = Users.read(b"alice: a:b:\\u00fc\n")
    assert users.authenticate(header("alice:a:b:ü")) == "alice"


def test_roles_limit_the_users() -> None:
    users = Users.read(USERS, ("writer",))
    assert users.authenticate(header("bob:other")) == "bob"
    assert users.authenticate(header("alice:secret")) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no user with an allowed role"),
        (b"alice:\n", "alice has no password"),
        (b"alice: MD5:00\n", "has format MD5"),
        (b"alice: \\u12\n", "cannot parse the users file"),
    ],
)
def test_unusable_users_file_is_rejected(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        Users.read(content)


def test_users_are_not_in_the_repr() -> None:
    assert "alice" not in repr(Users.read(USERS))


@pytest.mark.parametrize(
    ("settings", "listen", "expected"),
    [
        ({}, None, (False, "here:1")),
        ({}, "there:2", (False, "there:2")),
        ({}, "https://there:2", (True, "there:2")),
        ({"ssl.keystore.location": "x"}, "there:2", (True, "there:2")),
        ({"ssl.keystore.location": "x"}, "http://there:2/", (False, "there:2")),
        ({"listeners": "HTTPS://[::1]:3"}, None, (True, "[::1]:3")),
        ({"listeners": "https://a:3"}, "there:2", (False, "there:2")),
    ],
)
def test_scheme_or_keystore_decides_about_tls(
    settings: dict[str, str], listen: str | None, expected: tuple[bool, str]
) -> None:
    assert read_http_settings(settings)[0].address(listen, "here:1") == expected


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "http://a:1,https://a:2"}, "one address"),
        ({"listeners": "ftp://a:1"}, "neither http:// nor https://"),
        ({"listeners": "https://a:1"}, "ssl.keystore.location"),
        ({"authentication.method": "BASIC"}, "users.file"),
        ({"authentication.method": "BEARER"}, "authentication.method"),
        ({"headwater.authentication.users.file": "users"}, "authentication.method=BASIC"),
        ({"resource.extension.class": "com.example.Guard"}, "Java classes"),
        (
            {
                "authentication.method": "BASIC",
                "headwater.authentication.users.file": "/nowhere/users",
            },
            "No such file",
        ),
    ],
)
def test_invalid_http_settings_are_rejected(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        HttpAddress.of(read_http_settings(settings)[0], None, "127.0.0.1:0")


def test_confluents_client_auth_settings_are_read_and_unknown_ones_reported() -> None:
    for name, said, expected in (
        ("ssl.client.authentication", "REQUESTED", "requested"),
        ("ssl.client.auth", "true", "required"),
        ("ssl.client.auth", "false", "none"),
        ("ssl.client.auth", "required", "required"),
    ):
        settings, others = read_http_settings({name: said, "debug": "true"})
        assert (settings.ssl_client_auth, others) == (expected, ["debug"])


def test_http_address_has_its_users(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_bytes(USERS)
    settings, _ = read_http_settings(
        {"authentication.method": "basic", "headwater.authentication.users.file": str(file)}
    )
    door = HttpAddress.of(settings, None, "127.0.0.1:0")
    assert door.scheme == "http"
    assert door.users is not None
    assert door.users.authenticate(header("bob:other")) == "bob"
