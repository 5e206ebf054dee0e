"""Client settings as a mapping and as keywords."""

import logging
from dataclasses import fields

import pytest

from headwater.client.admin.admin_calls import AdminSettings
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.ignored_settings import UNUSED_SETTINGS
from headwater.client.network.bootstrap_addresses import BootstrapAddress, parse_bootstrap
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.settings import (
    ClientSettings,
    kafka_name,
    read_settings,
    supported_settings,
)
from headwater.common.exceptions import InvalidSetting, UnknownSetting


def test_a_mapping_and_keywords_are_equivalent() -> None:
    dotted = read_settings(
        ClientSettings, {"bootstrap.servers": "a:1,b:2", "request.timeout.ms": "5"}, {}
    )
    keywords = read_settings(
        ClientSettings, None, {"bootstrap_servers": ["a:1", "b:2"], "request_timeout_ms": 5}
    )
    assert dotted == keywords
    assert dotted.bootstrap_servers == ("a:1", "b:2")
    assert dotted.request_timeout_ms == 5


def test_an_unknown_setting_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean request\.timeout\.ms\?"):
        read_settings(ClientSettings, {"bootstrap.servers": "a:1", "request.timeout": 5}, {})


def test_settings_of_kafka_without_effect_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"bootstrap.servers": "a:1", "metric.reporters": "", "group.id": "tea"}
    with caplog.at_level(logging.WARNING):
        settings = read_settings(ProducerSettings, given, {"enable_metrics_push": False})
    assert settings == read_settings(ProducerSettings, {"bootstrap.servers": "a:1"}, {})
    assert "Setting ignored: name=group.id reason=it is a setting of consumers" in caplog.messages
    assert len(caplog.messages) == 3


@pytest.mark.parametrize(
    "name", ["config.providers", "ssl.engine.factory.class", "sasl.client.callback.handler.class"]
)
def test_unsupported_settings_that_affect_security_are_rejected(name: str) -> None:
    with pytest.raises(UnknownSetting, match=name):
        read_settings(ConsumerSettings, {"bootstrap.servers": "a:1", name: "x"}, {})


def test_settings_of_other_clients_are_ignored_in_a_shared_file() -> None:
    shared = {each.name for each in fields(ClientSettings)}
    for cls in (ProducerSettings, ConsumerSettings, AdminSettings):
        own = {kafka_name(each.name) for each in fields(cls) if each.name not in shared}
        missing = {name for name in own - UNUSED_SETTINGS.keys() if "headwater" not in name}
        assert missing == set()


def test_a_shared_file_keeps_unknown_names_and_drops_useless_ones() -> None:
    given = {"group.id": "tea", "acks": "1", "aks": "1", "metric.reporters": "x"}
    assert supported_settings(ProducerSettings, given) == {"acks": "1", "aks": "1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request.timeout.ms", 0),
        ("request.timeout.ms", "soon"),
        ("request.timeout.ms", 1.5),
        ("request.timeout.ms", None),
        ("security.protocol", "TLS"),
        ("bootstrap.servers", ""),
        ("bootstrap.servers", []),
    ],
)
def test_an_invalid_value_is_rejected_with_the_setting_name(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=name):
        read_settings(ClientSettings, {"bootstrap.servers": "a:1", name: value}, {})


def test_a_setting_given_twice_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match="twice"):
        read_settings(
            ClientSettings, {"bootstrap.servers": "a:1", "client.id": "x"}, {"client_id": "y"}
        )


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers"):
        read_settings(ClientSettings, {}, {})


def test_bootstrap_servers_are_deduplicated() -> None:
    assert parse_bootstrap(["a:1", "[::1]:2", "PLAINTEXT://a:1"]) == [
        BootstrapAddress("a", 1),
        BootstrapAddress("::1", 2),
    ]
    assert str(BootstrapAddress("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize("server", ["a", "a:b", ":1", "a:0", "a:70000"])
def test_an_invalid_address_is_rejected(server: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_bootstrap([server])


def test_none_stands_for_an_empty_text() -> None:
    """As users of kafka-python specify that they want no group."""
    settings = read_settings(ConsumerSettings, None, {"bootstrap_servers": "a:1", "group_id": None})
    assert settings.group_id == ConsumerSettings().group_id
