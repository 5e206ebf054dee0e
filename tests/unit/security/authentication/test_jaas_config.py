"""Parsing of `sasl.jaas.config`."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.security.authentication.jaas_config import read_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_broker_config_has_its_own_credentials_and_its_users() -> None:
    login = read_jaas(
        f'{PLAIN} required\n  username="admin" password="admin-secret"\n'
        '  user_admin="admin-secret" user_alice="a=b;c" user_bob=\'it\\\'s "q"\';'
    )
    assert login.module == "PlainLoginModule"
    assert (login.username, login.password) == ("admin", "admin-secret")
    assert dict(login.users) == {"admin": "admin-secret", "alice": "a=b;c", "bob": 'it\'s "q"'}


def test_unquoted_values_and_comments_are_accepted() -> None:
    login = read_jaas("ScramLoginModule REQUIRED // who\n username=alice /* and */ password=s3c-r;")
    assert (login.module, login.username, login.password) == ("ScramLoginModule", "alice", "s3c-r")


def test_backslash_in_a_password_is_escaped() -> None:
    assert read_jaas(r'X required password="a\\b\"c";').password == 'a\\b"c'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must start with"),
        (PLAIN, "must start with"),
        (f"{PLAIN} maybe secret=1;", "one of required"),
        (f'{PLAIN} required password="secret"', "semicolon"),
        (f"{PLAIN} required password;", "options"),
        (f"{PLAIN} required password=;", "no value"),
        (f'{PLAIN} required password="secret;', "quote"),
        (f"{PLAIN} required; {PLAIN} required;", "exactly one login module"),
        (f"{PLAIN} required secret § 3;", "unexpected character"),
    ],
)
def test_malformed_config_is_rejected_without_revealing_secrets(text: str, why: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read_jaas(text)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


def test_repr_hides_the_options() -> None:
    assert "hidden" not in repr(read_jaas('X required password="hidden";'))
