"""Quotas in effect, and their metrics."""

from headwater.broker.metrics.prometheus_exposition import exposition
from headwater.broker.metrics.quota_metrics import quota_families
from headwater.broker.requests.quota_managers import QuotaKind, QuotaManagers
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.changes import ConfigsReplaced, FeatureFinalized
from headwater.metadata.config_entities import resource_of
from headwater.network.limits.connection_creation_rate import ThrottledConnections
from headwater.replication.purgatory.timer import Timer
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from headwater.security.quotas.rate_quota import QuotaClient
from tests.simulation.labs.broker_lab import Peer, ScriptedClock
from tests.simulation.labs.cluster_lab import after, lone_broker


def throttling() -> QuotaManagers:
    return QuotaManagers(BrokerSettings(), ScriptedClock(), Timer())


def quota(entity: QuotaEntity, **values: str) -> ConfigsReplaced:
    return ConfigsReplaced(resource_of(entity), values)


def test_quotas_are_loaded_at_startup_and_follow_changes() -> None:
    made = throttling()
    image = after(
        lone_broker(),
        quota(QuotaEntity(user="alice"), producer_byte_rate="5"),
        quota(QuotaEntity(ip=DEFAULT), connection_creation_rate="3"),
        quota(QuotaEntity(user="bob"), **{"SCRAM-SHA-256": "secret"}),
    )
    made.load(image)
    assert made.in_force is made
    assert made.connections
    assert made.is_limited(QuotaClient("alice", "x"))
    assert not made.is_limited(QuotaClient("bob", "x"))
    assert not made.changed([FeatureFinalized("group.version", 1)])
    assert made.changed([quota(QuotaEntity(user="bob"), producer_byte_rate="5")])
    assert made.is_limited(QuotaClient("bob", "x"))
    made.changed([quota(QuotaEntity(user="alice")), quota(QuotaEntity(user="bob"))])
    made.changed([quota(QuotaEntity(ip=DEFAULT))])
    assert made.in_force is None
    assert not made.connections
    assert not made.is_limited(QuotaClient("alice", "x"))


def test_invalid_ip_entity_is_ignored() -> None:
    """A tool may have written it to ZooKeeper directly; the controller would reject it."""
    made = throttling()
    made.changed([quota(QuotaEntity(ip="no-address"), connection_creation_rate="3")])
    assert not made.connections


def test_metrics_of_throttled_clients_and_usage() -> None:
    made = throttling()
    made.changed([quota(QuotaEntity(user=DEFAULT), producer_byte_rate="1000")])
    made.clients.produce.charge(QuotaClient("alice", "app"), 5_000, 0)
    made.mute(Peer(), QuotaKind.PRODUCE, 700)
    made.mute(Peer(), QuotaKind.PRODUCE, 300)
    text = b"".join(exposition(list(quota_families(made, ThrottledConnections())))).decode()
    assert 'kafka_server_throttled_total{quota="Produce"} 2' in text
    assert 'kafka_server_throttled_seconds_total{quota="Produce"} 1.0' in text
    assert 'kafka_server_queue_size{quota="Produce"} 2' in text
    assert 'kafka_server_queue_size{quota="Fetch"} 0' in text
    assert 'kafka_server_produce_byte_rate{user="alice",client_id=""} 500.0' in text
    assert "kafka_server_socketserver_throttledconnections_total 0" in text
