"""Dynamic broker configs reach the components that use them."""

import pytest

from headwater.broker.node.dynamic_config import DynamicConfig
from headwater.broker.node.listeners import network_settings
from headwater.common.config_types import ResourceType
from headwater.common.settings.broker_properties import known_settings
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.declared_settings import UpdateMode
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_synonyms import TOPIC_SETTINGS
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.cluster_image import ALL_BROKERS, ConfigResource
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.limits.connection_quotas import ConnectionQuotas
from headwater.network.network_settings import NetworkSettings
from tests.simulation.labs.cluster_lab import after, lone_broker

BROKER_0 = ConfigResource(ResourceType.BROKER, "0")


def test_broker_config_change_is_applied_and_topic_config_change_is_not() -> None:
    told: list[int] = []
    live = DynamicConfig(
        StaticConfig.parse({}), [lambda settings: told.append(settings.max_connections)]
    )
    change = ConfigsReplaced(BROKER_0, {"max.connections": "7"})
    image = after(lone_broker(), change)
    live.changed(image, [change])
    live.changed(image, [ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "t"), {})])
    assert told == [7]
    live.load(image)
    assert told == [7, 7]


def test_config_that_this_broker_cannot_apply_is_logged_and_survived(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise it could never start again, since the metadata has it from then on."""
    told: list[int] = []
    live = DynamicConfig(
        StaticConfig.parse({}), [lambda settings: told.append(settings.max_connections)]
    )
    foreign = {"listener.name.foreign.ssl.keystore.location": "own.pem", "max.connections": "7"}
    live.load(after(lone_broker(), ConfigsReplaced(BROKER_0, foreign)))
    assert told == []
    assert "there is no such listener" in caplog.text


UNKNOWN = {"max.conections": "3", "my.plugin.url": "http://localhost", "max.connections": "7"}


@pytest.mark.parametrize("name", ["0", ALL_BROKERS])
def test_unknown_configs_of_kafka_are_warned_of_and_known_ones_applied(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []
    live = DynamicConfig(
        StaticConfig.parse({}), [lambda settings: told.append(settings.max_connections)]
    )
    change = ConfigsReplaced(ConfigResource(ResourceType.BROKER, name), UNKNOWN)
    image = after(lone_broker(), change)
    live.load(image)
    live.changed(image, [change])
    assert told == [7, 7]
    shown = name or "default"
    assert caplog.messages == 2 * [
        f"Ignoring a config: resource=broker-{shown} "
        "reason=unknown broker setting max.conections; did you mean max.connections?",
        f"Ignoring a config: resource=broker-{shown} reason=unknown broker setting my.plugin.url",
    ]
    assert dict(image.configs_of(ResourceType.BROKER, name)) == UNKNOWN


def test_unknown_topic_config_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    topic = ConfigResource(ResourceType.TOPIC, "orders")
    change = ConfigsReplaced(topic, {"message.downconversion.enable": "true"})
    DynamicConfig(StaticConfig.parse({}), []).changed(after(lone_broker(), change), [change])
    (message,) = caplog.messages
    assert message.startswith(
        "Ignoring a config: resource=topic-orders "
        "reason=unknown topic setting message.downconversion.enable"
    )


def test_every_dynamic_config_reaches_a_component() -> None:
    """Unless declared to have no effect, it reaches the sockets, the storage, the topics, or the
    transaction verification.
    """
    inherited = {name for setting in TOPIC_SETTINGS.values() for name in setting.synonyms}
    reached = {
        *NetworkSettings.__slots__,
        *StorageSettings.__slots__,
        # `AddPartitionsToTxnManager.configure` uses this.
        "transaction_partition_verification_enable",
        # `ReplicaFetcherManager.configure` uses these.
        "leader_replication_throttled_rate",
        "follower_replication_throttled_rate",
    }
    changeable = {
        name
        for name, setting in known_settings().items()
        if setting.update_mode is not UpdateMode.READ_ONLY and setting.has_effect
    }
    assert {name.replace(".", "_") for name in changeable - inherited} <= reached


def test_new_connection_limits_apply_to_new_connections() -> None:
    connection_quotas = ConnectionQuotas(NetworkSettings())
    assert connection_quotas.inc("PLAINTEXT", "192.0.2.1") is None
    settings = BrokerSettings(max_connections_per_ip_overrides=("192.0.2.1:1",), max_connections=3)
    connection_quotas.configure(network_settings(settings))
    assert connection_quotas.inc("PLAINTEXT", "192.0.2.1") == "max.connections.per.ip"
    assert connection_quotas.inc("PLAINTEXT", "192.0.2.2") is None
    assert connection_quotas.inc("PLAINTEXT", "192.0.2.3") is None
    assert connection_quotas.inc("PLAINTEXT", "192.0.2.4") == "max.connections"
