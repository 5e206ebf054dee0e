"""Settings of clients: two ways to write them, one check."""

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
    useful_settings,
)
from headwater.common.exceptions import InvalidSetting, UnknownSetting


def test_a_mapping_and_keywords_say_the_same() -> None:
    dotted = read_settings(
        ClientSettings, {"bootstrap.servers": "a:1,b:2", "request.timeout.ms": "5"}, {}
    )
    keywords = read_settings(
        ClientSettings, None, {"bootstrap_servers": ["a:1", "b:2"], "request_timeout_ms": 5}
    )
    assert dotted == keywords
    assert dotted.bootstrap_servers == ("a:1", "b:2")
    assert dotted.request_timeout_ms == 5


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean request\.timeout\.ms\?"):
        read_settings(ClientSettings, {"bootstrap.servers": "a:1", "request.timeout": 5}, {})


def test_what_kafka_has_and_this_client_does_not_use_is_left_aside_with_a_warning(
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
def test_what_changes_who_is_trusted_or_how_values_are_read_is_not_left_aside(name: str) -> None:
    with pytest.raises(UnknownSetting, match=name):
        read_settings(ConsumerSettings, {"bootstrap.servers": "a:1", name: "x"}, {})


def test_what_one_client_has_another_one_takes_from_a_shared_file() -> None:
    shared = {each.name for each in fields(ClientSettings)}
    for cls in (ProducerSettings, ConsumerSettings, AdminSettings):
        own = {kafka_name(each.name) for each in fields(cls) if each.name not in shared}
        missing = {name for name in own - UNUSED_SETTINGS.keys() if "headwater" not in name}
        assert missing == set()


def test_a_shared_file_is_read_without_what_is_of_no_use_and_with_what_is_misspelt() -> None:
    given = {"group.id": "tea", "acks": "1", "aks": "1", "metric.reporters": "x"}
    assert useful_settings(ProducerSettings, given) == {"acks": "1", "aks": "1"}


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
def test_a_value_that_is_not_allowed_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=name):
        read_settings(ClientSettings, {"bootstrap.servers": "a:1", name: value}, {})


def test_a_setting_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="twice"):
        read_settings(
            ClientSettings, {"bootstrap.servers": "a:1", "client.id": "x"}, {"client_id": "y"}
        )


def test_somebody_must_be_named_to_begin_with() -> None:
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers"):
        read_settings(ClientSettings, {}, {})


def test_bootstrap_servers_are_addresses_each_once() -> None:
    assert parse_bootstrap(["a:1", "[::1]:2", "PLAINTEXT://a:1"]) == [
        BootstrapAddress("a", 1),
        BootstrapAddress("::1", 2),
    ]
    assert str(BootstrapAddress("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize("server", ["a", "a:b", ":1", "a:0", "a:70000"])
def test_what_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_bootstrap([server])


def test_no_text_may_be_said_as_none() -> None:
    """As users of kafka-python say that they want no group."""
    settings = read_settings(ConsumerSettings, None, {"bootstrap_servers": "a:1", "group_id": None})
    assert settings.group_id == ConsumerSettings().group_id
