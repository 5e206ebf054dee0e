"""Which of the texts that a broker is started with count, and which are put aside."""

import pytest

from headwater.model.broker_properties import known_settings, parse_broker_settings
from headwater.model.failures import InvalidSetting
from headwater.model.server_properties import layered, served_properties
from headwater.model.unserved_settings import why_unserved

# The settings, in other words than its comments, of the file that comes with Kafka 4.1.
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


def test_the_file_that_comes_with_kafka_starts_a_broker() -> None:
    properties = served_properties(KAFKAS_OWN_FILE)
    assert list(properties.put_aside) == [
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
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
def test_a_later_layer_wins_under_another_name_of_the_same_setting(
    below: dict[str, str], above: dict[str, str]
) -> None:
    assert layered(below, above) == above


def test_two_names_in_one_layer_both_stay_for_the_parser_to_judge() -> None:
    both = {"broker.id": "3", "node.id": "4"}
    assert layered({}, both) == both


def test_an_interval_of_its_own_survives_the_setting_that_it_is_a_default_of() -> None:
    scheduler = {"log.flush.scheduler.interval.ms": "5"}
    flush = {"log.flush.interval.ms": "7"}
    assert layered(scheduler, flush) == scheduler | flush


@pytest.mark.parametrize(
    "name",
    ["ssl.engine.factory.class", "sasl.kerberos.service.name"],
)
def test_a_wish_for_security_is_never_put_aside(name: str) -> None:
    properties = served_properties({name: "x"})
    assert properties.put_aside == {}
    with pytest.raises(InvalidSetting, match="not built yet"):
        parse_broker_settings(properties.texts)


@pytest.mark.parametrize(
    "name",
    ["zookeeper.ssl.client.enable", "zookeeper.set.acl", "allow.everyone.if.no.acl.found"],
)
def test_nor_is_one_that_hides_in_a_family_that_is_put_aside(name: str) -> None:
    assert served_properties({name: "true"}).put_aside == {}


@pytest.mark.parametrize("name", ["authorizer.class.name", "super.users"])
def test_nor_is_a_wish_for_rights_that_cannot_be_obeyed(name: str) -> None:
    properties = served_properties({name: "x"})
    assert properties.put_aside == {}
    with pytest.raises(InvalidSetting, match=name):
        parse_broker_settings(properties.texts)


def test_an_empty_authorizer_is_no_wish() -> None:
    properties = served_properties({"authorizer.class.name": ""})
    assert parse_broker_settings(properties.texts).authorizer_class_name == ""


def test_the_protocol_of_clients_is_put_aside_only_when_it_is_plain() -> None:
    assert served_properties({"security.protocol": "PLAINTEXT"}).texts == {}
    with pytest.raises(InvalidSetting, match="not built yet"):
        parse_broker_settings(served_properties({"security.protocol": "SSL"}).texts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093"),
        ("controller.quorum.bootstrap.servers", "a:9093,b:9093"),
        ("process.roles", "broker"),
        ("process.roles", "controller"),
    ],
)
def test_a_node_of_a_cluster_does_not_start_alone(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match="leave it out"):
        served_properties({name: text})


def test_a_typing_error_is_not_put_aside() -> None:
    for name in ("num.partitons", "offsets.topic.num.partition", "transaction.max.timeout"):
        with pytest.raises(InvalidSetting, match="did you mean"):
            parse_broker_settings(served_properties({name: "1"}).texts)


def test_nothing_that_is_obeyed_is_also_called_unserved() -> None:
    assert [name for name in known_settings() if why_unserved(name)] == []
