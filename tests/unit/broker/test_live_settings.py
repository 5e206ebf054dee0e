"""Settings that change while a broker runs reach whoever obeys them."""

import pytest

from headwater.broker.listeners import network_settings
from headwater.broker.live_settings import LiveSettings
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import ConfigsReplaced
from headwater.cluster.image import ConfigResource
from headwater.model.broker_properties import known_settings
from headwater.model.broker_settings import BrokerSettings
from headwater.model.config_terms import ResourceType
from headwater.model.declared_settings import Reach
from headwater.model.storage_settings import StorageSettings
from headwater.model.topic_synonyms import TOPIC_SETTINGS
from headwater.net.admission import Admission
from headwater.net.settings import NetworkSettings
from tests.sim.cluster_lab import after, lone_broker

BROKER_0 = ConfigResource(ResourceType.BROKER, "0")


def test_a_change_for_a_broker_is_told_and_one_for_a_topic_is_not() -> None:
    told: list[int] = []
    live = LiveSettings(
        StaticConfig.parse({}), [lambda settings: told.append(settings.max_connections)]
    )
    change = ConfigsReplaced(BROKER_0, {"max.connections": "7"})
    image = after(lone_broker(), change)
    live.changed(image, [change])
    live.changed(image, [ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "t"), {})])
    assert told == [7]
    live.tell(image)
    assert told == [7, 7]


def test_what_another_controller_took_and_this_broker_cannot_obey_is_told_and_survived(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else it could never be started again, since the image has it from then on."""
    told: list[int] = []
    live = LiveSettings(
        StaticConfig.parse({}), [lambda settings: told.append(settings.max_connections)]
    )
    foreign = {"listener.name.foreign.ssl.keystore.location": "own.pem", "max.connections": "7"}
    live.tell(after(lone_broker(), ConfigsReplaced(BROKER_0, foreign)))
    assert told == []
    assert "there is no such listener" in caplog.text


def test_what_may_change_while_a_broker_runs_is_obeyed_by_somebody_who_is_told() -> None:
    """Unless it is declared to have no effect, it reaches the sockets, the storage, the topics, or
    those who ask about transactions.
    """
    inherited = {name for setting in TOPIC_SETTINGS.values() for name in setting.synonyms}
    reached = {
        *NetworkSettings.__slots__,
        *StorageSettings.__slots__,
        # `TransactionQuestions.configure` takes this.
        "transaction_partition_verification_enable",
        # `Replicas.configure` takes these.
        "leader_replication_throttled_rate",
        "follower_replication_throttled_rate",
    }
    changeable = {
        name
        for name, setting in known_settings().items()
        if setting.reach is not Reach.READ_ONLY and setting.has_effect
    }
    assert {name.replace(".", "_") for name in changeable - inherited} <= reached


def test_new_limits_count_for_whoever_comes_next() -> None:
    admission = Admission(NetworkSettings())
    assert admission.admit("PLAINTEXT", "192.0.2.1") is None
    settings = BrokerSettings(max_connections_per_ip_overrides=("192.0.2.1:1",), max_connections=3)
    admission.configure(network_settings(settings))
    assert admission.admit("PLAINTEXT", "192.0.2.1") == "max.connections.per.ip"
    assert admission.admit("PLAINTEXT", "192.0.2.2") is None
    assert admission.admit("PLAINTEXT", "192.0.2.3") is None
    assert admission.admit("PLAINTEXT", "192.0.2.4") == "max.connections"
