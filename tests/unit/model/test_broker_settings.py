"""A broker's settings, from the texts of a server.properties."""

import pytest

from headwater.model.broker_properties import (
    known_settings,
    parse_broker_settings,
    topic_defaults,
)
from headwater.model.broker_settings import BrokerSettings
from headwater.model.failures import InvalidSetting
from headwater.model.setting_kinds import format_value
from headwater.model.storage_settings import StorageSettings
from headwater.model.topic_settings import TopicSettings


def test_a_broker_without_settings_has_the_defaults() -> None:
    assert parse_broker_settings({}) == BrokerSettings()
    assert BrokerSettings().storage() == StorageSettings()
    assert topic_defaults({}) == TopicSettings()


def test_texts_become_typed_values() -> None:
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


def test_the_old_name_of_the_id_is_understood() -> None:
    assert parse_broker_settings({"broker.id": "4"}).node_id == 4
    with pytest.raises(InvalidSetting, match="two names of one setting"):
        parse_broker_settings({"broker.id": "4", "node.id": "5"})


def test_of_several_synonyms_the_finest_unit_wins() -> None:
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
        ("ssl.keystore.location", "/k", "not built yet"),
        ("sasl.enabled.mechanisms", "PLAIN", "not built yet"),
        ("listener.name.inside.ssl.client.auth", "none", "not built yet"),
        ("authorizer.class.name", "x", "known is org.apache.kafka.*StandardAuthorizer"),
        ("super.users", "User:alice;bob", "User:alice;User:bob, and not 'bob'"),
        ("listener.security.protocol.map", "PLAINTEXT:SSL", "PLAINTEXT cannot speak SSL"),
        ("listener.security.protocol.map", "PLAINTEXT", "one of PLAINTEXT, SSL"),
        ("listeners", "PLAINTEXT://:9092,ssl://:9093", "SSL cannot speak SSL: .* not built yet"),
        ("advertised.listeners", "SASL_SSL://here:9092", "cannot speak SASL_SSL"),
        ("listeners", "INSIDE://:9092", "add INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ("security.providers", "x", "not built yet"),
        ("create.topic.policy.class.name", "x", "Java machine"),
        ("security.inter.broker.protocol", "SASL_SSL", "one of PLAINTEXT"),
        ("process.roles", "broker", "leave it out"),
        ("log.retention.hours", "x", "whole number"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_with_its_reason(
    name: str, text: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        parse_broker_settings({name: text})


def test_every_default_is_read_back_from_its_own_text() -> None:
    for setting in known_settings().values():
        text = format_value(setting.default)
        if text is not None:
            assert setting.kind.parse(text) == setting.default, setting.name
