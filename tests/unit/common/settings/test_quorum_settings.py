"""Settings of the metadata quorum: Kafka's names, defaults and rules."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.declared_settings import settings_in
from headwater.common.settings.quorum_settings import (
    HostAndPort,
    QuorumSettings,
    StaticVoter,
    parse_quorum_settings,
)
from headwater.common.settings.server_properties import controller_properties

CONTROLLER = {
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "one:9093, [::1]:9094",
}


def test_addresses_of_a_quorum_are_parsed() -> None:
    settings = parse_quorum_settings(
        {**CONTROLLER, "controller.quorum.voters": "1@one:9093,2@two:9093"}
    )
    assert settings.voters == (StaticVoter(1, "one", 9093), StaticVoter(2, "two", 9093))
    assert settings.bootstrap_servers == (HostAndPort("one", 9093), HostAndPort("::1", 9094))


def test_defaults_are_kafkas() -> None:
    settings = parse_quorum_settings({"num.partitions": "3"})
    assert settings == QuorumSettings()
    assert settings.controller_quorum_election_timeout_ms == 1_000
    assert settings.controller_quorum_fetch_timeout_ms == 2_000
    assert settings.metadata_log_segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"process.roles": "controller,king"}, "process.roles"),
        ({"controller.listener.names": ""}, "controller.listener.names is required"),
        ({"controller.quorum.bootstrap.servers": ""}, "set controller.quorum.bootstrap.servers"),
        ({"controller.quorum.bootstrap.servers": "one"}, "must be host:port"),
        ({"controller.quorum.voters": "1@one:9093,1@two:9093"}, "a node id twice"),
        ({"controller.quorum.voters": "one:9093"}, "must be id@host:port"),
        ({"controller.quorum.fetch.timeout.ms": "soon"}, "controller.quorum.fetch.timeout.ms=soon"),
    ],
)
def test_wrong_values_are_refused(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        parse_quorum_settings({**CONTROLLER, **changes})


def test_controller_listeners_are_plaintext_unless_a_map_says_otherwise() -> None:
    texts = {**CONTROLLER, "listeners": "CONTROLLER://:9093", "no.such.setting": "1"}
    found = controller_properties(texts)
    assert "CONTROLLER:PLAINTEXT" in found.texts["listener.security.protocol.map"]
    assert not found.texts.keys() & settings_in(QuorumSettings).keys()
    assert "no.such.setting" in found.unknown
    given = controller_properties({**texts, "listener.security.protocol.map": "CONTROLLER:SSL"})
    assert given.texts["listener.security.protocol.map"] == "CONTROLLER:SSL"
