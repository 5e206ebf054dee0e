"""Listener settings of a broker."""

from headwater.broker.node.listeners import network_settings
from headwater.common.settings.broker_settings import BrokerSettings


def test_limits_per_ip_match_any_spelling_of_an_address() -> None:
    settings = BrokerSettings(
        max_connections_per_ip_overrides=("[::1]:50", "[::ffff:192.0.2.1]:3", "192.0.2.2:4")
    )
    overrides = network_settings(settings).max_connections_per_ip_overrides
    assert overrides == {"::1": 50, "192.0.2.1": 3, "192.0.2.2": 4}
