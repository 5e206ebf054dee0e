"""Classification of the settings that a broker is started with."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import known_settings, parse_broker_settings
from headwater.common.settings.server_properties import (
    combined_properties,
    kraft_broker_properties,
    layered,
    names_several_nodes,
    supported_properties,
)
from headwater.common.settings.unsupported_settings import unsupported_reason

# The settings, without the comments, of the file that comes with Kafka 4.1.
KAFKAS_OWN_FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def test_kafkas_server_properties_starts_a_broker() -> None:
    properties = supported_properties(KAFKAS_OWN_FILE)
    assert properties.unknown == {}
    assert list(properties.without_effect) == [
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "num.network.threads",
        "num.io.threads",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    ]
    settings = parse_broker_settings(properties.texts)
    assert settings.node_id == 1
    assert settings.listeners == ("PLAINTEXT://:9092",)
    assert settings.advertised_listeners == ("PLAINTEXT://localhost:9092",)


def test_a_later_layer_wins() -> None:
    assert layered({"a": "1", "b": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ({"log.retention.ms": "5"}, {"log.retention.hours": "1"}),
        ({"log.dirs": "/a"}, {"log.dir": "/b"}),
        ({"broker.id": "3"}, {"node.id": "4"}),
        ({"log.roll.ms": "5"}, {"log.roll.hours": "1"}),
    ],
)
def test_later_layer_wins_over_a_synonym(below: dict[str, str], above: dict[str, str]) -> None:
    assert layered(below, above) == above


def test_synonyms_in_one_layer_are_both_kept() -> None:
    both = {"broker.id": "3", "node.id": "4"}
    assert layered({}, both) == both


def test_scheduler_interval_is_kept_when_flush_ms_is_set() -> None:
    scheduler = {"log.flush.scheduler.interval.ms": "5"}
    flush = {"log.flush.interval.ms": "7"}
    assert layered(scheduler, flush) == scheduler | flush


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.engine.factory.class", "com.example.Engine"),
        ("listener.name.external.ssl.engine.factory.class", "com.example.Engine"),
        ("principal.builder.class", "com.example.Builder"),
        ("sasl.oauthbearer.jwt.validator.class", "com.example.Validator"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("client.quota.callback.class", "com.example.Quotas"),
        ("zookeeper.ssl.client.enable", "true"),
        ("zookeeper.set.acl", "true"),
    ],
)
def test_setting_whose_absence_weakens_protection_prevents_the_start(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match="remove this setting"):
        supported_properties({name: text})
    assert list(supported_properties({name: " "}).without_effect) == [name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zookeeper.set.acl", "false"),
        ("zookeeper.ssl.client.enable", "false"),
        ("zookeeper.ssl.truststore.location", "/etc/trust.jks"),
        ("ssl.provider", "BC"),
        ("listener.name.external.ssl.provider", "BC"),
        ("listener.name.external.oauthbearer.sasl.login.class", "com.example.Login"),
        ("delegation.token.secret.key", "s3cret"),
        ("password.encoder.secret", "s3cret"),
        ("security.providers", "com.example.Provider"),
        ("security.protocol", "SSL"),
    ],
)
def test_unsupported_kafka_setting_has_no_effect(name: str, text: str) -> None:
    properties = supported_properties({name: text})
    assert properties.texts == properties.unknown == {}
    assert list(properties.without_effect) == [name]
    assert text not in properties.without_effect[name]


@pytest.mark.parametrize(
    "name", ["sasl.kerberos.service.name", "listener.name.plaintext.sasl.kerberos.service.name"]
)
def test_stored_setting_without_effect_is_kept_and_reported(name: str) -> None:
    properties = supported_properties({name: "kafka"})
    assert properties.texts == {name: "kafka"}
    assert properties.without_effect == {
        name: "Accepted for compatibility; GSSAPI is not supported."
    }
    parse_broker_settings(properties.texts)


@pytest.mark.parametrize("name", ["authorizer.class.name", "super.users"])
def test_wrong_authorization_setting_prevents_the_start(name: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        parse_broker_settings(supported_properties({name: "x"}).texts)


def test_empty_authorizer_means_no_authorization() -> None:
    properties = supported_properties({"authorizer.class.name": ""})
    assert parse_broker_settings(properties.texts).authorizer_class_name == ""


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093", "set process.roles"),
        ("controller.quorum.bootstrap.servers", "a:9093,b:9093", "set process.roles"),
        ("process.roles", "broker", "the roles are"),
        ("process.roles", "brooker,controller", "the roles are"),
    ],
)
def test_kraft_cluster_node_does_not_start_alone(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        supported_properties({name: text})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num.partitons", "num.partitions"),
        ("offsets.topic.num.partition", "offsets.topic.num.partitions"),
        ("transaction.max.timeout", "transaction.max.timeout.ms"),
        ("broker.sesion.timeout.ms", "broker.session.timeout.ms"),
        ("ssl.client.auht", "ssl.client.auth"),
        ("Num.Partitions", "num.partitions (lower case)"),
        ("listener.name.external.ssl.client.auht", "listener.name.external.ssl.client.auth"),
        (
            "listener.name.SSL.ssl.client.auth",
            "listener.name.ssl.ssl.client.auth (lower case)",
        ),
    ],
)
def test_unknown_name_is_reported_with_the_nearest_known_one(name: str, nearest: str) -> None:
    properties = supported_properties({name: "1"})
    assert properties.texts == properties.without_effect == {}
    assert properties.unknown == {name: f"unknown broker setting {name}; did you mean {nearest}?"}


def test_unknown_name_without_similar_one_is_reported_without_suggestion() -> None:
    properties = supported_properties({"xyz": "1"})
    assert properties.unknown == {"xyz": "unknown broker setting xyz"}


def test_supported_settings_are_not_listed_as_unsupported() -> None:
    assert [name for name in known_settings() if unsupported_reason(name)] == []


def test_both_roles_divide_the_listeners() -> None:
    texts = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": "PLAINTEXT://a:9092",
    }
    broker, controller = combined_properties(texts)
    assert broker.texts["listeners"] == "PLAINTEXT://:9092"
    assert broker.texts["advertised.listeners"] == "PLAINTEXT://a:9092"
    assert controller.texts["listeners"] == "CONTROLLER://:9093"
    assert "advertised.listeners" not in controller.texts


def test_protocol_between_brokers_is_not_one_of_the_controller() -> None:
    texts = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "SSL://:9092,CONTROLLER://:9093",
        "security.inter.broker.protocol": "SSL",
    }
    broker, controller = combined_properties(texts)
    assert broker.texts["security.inter.broker.protocol"] == "SSL"
    assert "security.inter.broker.protocol" not in controller.texts


def test_broker_of_a_kraft_cluster_has_no_controller_listener() -> None:
    texts = {
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    }
    with pytest.raises(InvalidSetting, match="has no controller listener"):
        kraft_broker_properties(texts)


def test_kraft_broker_has_no_zookeeper() -> None:
    texts = {"process.roles": "broker", "zookeeper.connect": "zk:2181"}
    with pytest.raises(InvalidSetting, match="give only one of them"):
        kraft_broker_properties(texts)


@pytest.mark.parametrize(
    ("name", "value", "several"),
    [
        ("controller.quorum.bootstrap.servers", "a:1,b:1", True),
        ("controller.quorum.bootstrap.servers", "a:1", False),
        ("controller.quorum.voters", "1@a:1,2@b:1", True),
    ],
)
def test_quorum_of_several_nodes(name: str, value: str, several: bool) -> None:
    assert names_several_nodes({name: value}) is several
