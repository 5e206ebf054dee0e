"""Broker settings, parsed from a server.properties."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import (
    known_settings,
    parse_broker_settings,
    protocols_by_listener,
    topic_defaults,
)
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.password import Password
from headwater.common.settings.setting_types import format_value
from headwater.common.settings.ssl_settings import ListenerSslSettings
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings


def test_defaults_without_settings() -> None:
    assert parse_broker_settings({}) == BrokerSettings()
    assert BrokerSettings().storage() == StorageSettings()
    assert topic_defaults({}) == TopicSettings()


def test_values_are_parsed() -> None:
    settings = parse_broker_settings(
        {
            "node.id": "3",
            "listeners": "PLAINTEXT://:9092, INSIDE://10.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,inside:PLAINTEXT",
            "auto.create.topics.enable": "FALSE",
            "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
            "log.retention.check.interval.ms": "5",
        }
    )
    assert settings.node_id == 3
    assert settings.listeners == ("PLAINTEXT://:9092", "INSIDE://10.0.0.1:9093")
    assert settings.auto_create_topics_enable is False
    assert settings.storage().log_retention_check_interval_ms == 5
    assert settings.storage().log_cleaner_io_max_bytes_per_second == 2**63 - 1


def test_broker_id_is_an_alias_of_node_id() -> None:
    assert parse_broker_settings({"broker.id": "4"}).node_id == 4
    with pytest.raises(InvalidSetting, match="same setting"):
        parse_broker_settings({"broker.id": "4", "node.id": "5"})


def test_finest_unit_of_several_synonyms_wins() -> None:
    texts = {"log.retention.hours": "2"}
    assert topic_defaults(texts).retention_ms == 7_200_000
    texts["log.retention.minutes"] = "3"
    assert topic_defaults(texts).retention_ms == 180_000
    texts["log.retention.ms"] = "4"
    assert topic_defaults(texts).retention_ms == 4
    assert topic_defaults({"log.retention.hours": "-1"}).retention_ms == -1
    assert topic_defaults({"log.roll.hours": "1"}).segment_ms == 3_600_000


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitons", "1", "did you mean num.partitions"),
        ("num.partitions", "0", "between 1"),
        ("num.partitions", "many", "whole number"),
        ("log.cleaner.io.buffer.load.factor", "2", "between 0 and 1"),
        ("listener.name.inside.ssl.client.auth", "none", "no such listener"),
        ("listener.name.ssl.ssl.client.auth", "maybe", "one of none, requested, required"),
        ("listener.name.plaintext.num.partitions", "3", "unknown broker setting"),
        ("listener.name..ssl.client.auth", "none", "unknown broker setting"),
        ("listener.name.SSL.ssl.client.auth", "required", "did you mean listener.name.ssl.ssl"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "list of TLSv1.2, TLSv1.3"),
        ("ssl.truststore.type", "BKS", "one of JKS, PKCS12, PEM"),
        ("ssl.provider", "x", "ssl.provider is not supported"),
        ("authorizer.class.name", "x", "supported: org.apache.kafka.*StandardAuthorizer"),
        ("super.users", "User:alice;bob", "User:alice;User:bob, not 'bob'"),
        ("listener.security.protocol.map", "PLAINTEXT", "one of PLAINTEXT, SSL"),
        ("listeners", "INSIDE://:9092", "add INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ("security.providers", "x", "security.providers is not supported"),
        ("create.topic.policy.class.name", "x", "create.topic.policy.class.name is not supported"),
        ("security.inter.broker.protocol", "SASL_SSL", "there is no listener SASL_SSL"),
        ("security.inter.broker.protocol", "TLS", "one of SASL_SSL, PLAINTEXT, SSL"),
        ("process.roles", "broker", "process.roles is not supported"),
        ("log.retention.hours", "x", "whole number"),
    ],
)
def test_unsupported_or_invalid_settings_are_rejected_with_the_reason(
    name: str, text: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        parse_broker_settings({name: text})


def test_every_default_is_parsed_from_its_own_text() -> None:
    for setting in known_settings().values():
        text = format_value(setting.default)
        if text is not None:
            assert setting.kind.parse(text) == setting.default, setting.name


def test_inter_broker_listener_and_protocol_exclude_each_other() -> None:
    with pytest.raises(InvalidSetting, match="only one of"):
        parse_broker_settings(
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            }
        )


def test_four_protocols_are_mapped_to_themselves() -> None:
    protocols = protocols_by_listener(BrokerSettings())
    assert protocols == {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}


def test_password_is_not_shown_in_messages_or_repr() -> None:
    settings = parse_broker_settings(
        {"ssl.key.password": "tops3cret", "listener.name.ssl.ssl.keystore.key": "tops3cret"}
    )
    read = settings.listener_texts.of("SSL").read(ListenerSslSettings)
    assert read.ssl_key_password == read.ssl_keystore_key == Password("tops3cret")
    assert "tops3cret" not in f"{settings!r}{read!r}{read.ssl_key_password}"
