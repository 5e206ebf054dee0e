"""Settings of registry clients in a file that is shared with broker clients."""

import pytest

from headwater.client.schema_registry import SchemaRegistry
from headwater.client.serialization.schema_registry_settings import (
    read_registry_settings,
    registry_settings,
)
from headwater.common.exceptions import InvalidSetting, UnknownSetting

BROKERS = {
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "brokers.pem",
    "sasl.username": "alice",
    "sasl.password": "of-brokers",
}


def test_tls_settings_are_shared_with_the_registry_but_sasl_is_not() -> None:
    assert registry_settings(BROKERS) == {"ssl.ca.location": "brokers.pem"}


def test_tls_settings_of_the_registry_replace_shared_ones() -> None:
    shared = {**BROKERS, "ssl.key.location": "k", "schema.registry.ssl.ca.location": "own.pem"}
    assert registry_settings(shared) == {"ssl.ca.location": "own.pem"}


def test_basic_auth_is_found_under_both_names() -> None:
    for name in ("basic.auth.user.info", "schema.registry.basic.auth.user.info"):
        assert registry_settings({name: "a:b"}) == {"basic.auth.user.info": "a:b"}
    both = {"basic.auth.user.info": "a:b", "schema.registry.basic.auth.user.info": "c:d"}
    assert registry_settings(both) == {"basic.auth.user.info": "c:d"}


def test_sasl_credentials_are_used_only_with_sasl_inherit() -> None:
    said = {**BROKERS, "basic.auth.credentials.source": "SASL_INHERIT"}
    assert read_registry_settings(registry_settings(said)).login() == "alice:of-brokers"


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
def test_invalid_registry_settings_are_rejected(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        SchemaRegistry(settings={"schema.registry.url": "http://h", **settings} if settings else {})


def test_a_misspelt_setting_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean basic\.auth\.user\.info"):
        SchemaRegistry("http://h", {"basic.auth.userinfo": "a:b"})


def test_errors_do_not_contain_passwords() -> None:
    with pytest.raises(InvalidSetting) as refused:
        SchemaRegistry("htp://alice:secret@host")
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidSetting) as refused:
        SchemaRegistry("http://host", {"basic.auth.user.info": "secret"})
    assert "secret" not in str(refused.value)
