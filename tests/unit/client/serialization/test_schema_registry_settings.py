"""Tests for how a registry is reached: which settings of a shared file are its own."""

import pytest

from headwater.client.schema_registry import SchemaRegistry
from headwater.client.serialization.schema_registry_settings import (
    read_registry_settings,
    registry_part,
)
from headwater.common.exceptions import InvalidSetting, UnknownSetting

BROKERS = {
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "brokers.pem",
    "sasl.username": "alice",
    "sasl.password": "of-brokers",
}


def test_a_file_for_brokers_says_whom_a_registry_is_trusted_by_and_keeps_its_login() -> None:
    assert registry_part(BROKERS) == {"ssl.ca.location": "brokers.pem"}


def test_a_registrys_own_tls_wins_as_a_whole() -> None:
    shared = {**BROKERS, "ssl.key.location": "k", "schema.registry.ssl.ca.location": "own.pem"}
    assert registry_part(shared) == {"ssl.ca.location": "own.pem"}


def test_a_login_is_found_under_both_of_its_names() -> None:
    for name in ("basic.auth.user.info", "schema.registry.basic.auth.user.info"):
        assert registry_part({name: "a:b"}) == {"basic.auth.user.info": "a:b"}
    both = {"basic.auth.user.info": "a:b", "schema.registry.basic.auth.user.info": "c:d"}
    assert registry_part(both) == {"basic.auth.user.info": "c:d"}


def test_the_brokers_user_is_the_registrys_only_if_that_is_said() -> None:
    said = {**BROKERS, "basic.auth.credentials.source": "SASL_INHERIT"}
    assert read_registry_settings(registry_part(said)).login() == "alice:of-brokers"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"basic.auth.user.info": "alice"}, "must be user:password"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "requires basic.auth.user.info"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "requires sasl.username"),
        ({"basic.auth.credentials.source": "STS"}, "basic.auth.credentials.source"),
        ({"schema.registry.url": "https://h", "ssl.ca.location": "/nowhere"}, "/nowhere"),
        ({}, "set schema.registry.url"),
    ],
)
def test_a_registry_that_cannot_be_reached_so_is_refused_before_it_is_asked(
    settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        SchemaRegistry(settings={"schema.registry.url": "http://h", **settings} if settings else {})


def test_a_misspelt_setting_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean basic\.auth\.user\.info"):
        SchemaRegistry("http://h", {"basic.auth.userinfo": "a:b"})


def test_errors_do_not_tell_passwords() -> None:
    with pytest.raises(InvalidSetting) as refused:
        SchemaRegistry("htp://alice:secret@host")
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidSetting) as refused:
        SchemaRegistry("http://host", {"basic.auth.user.info": "secret"})
    assert "secret" not in str(refused.value)
