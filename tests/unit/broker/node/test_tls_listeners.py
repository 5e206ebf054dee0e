"""TLS settings of listeners, and reloading of stores."""

import logging
from pathlib import Path

import pytest

from headwater.broker.node.listeners import own_endpoints
from headwater.broker.node.tls_listeners import TlsListeners
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import parse_broker_settings
from headwater.common.settings.broker_settings import BrokerSettings
from tests.certificates import Authority

AUTHORITY = Authority()


def settings_with(store: Path, **others: str) -> BrokerSettings:
    return parse_broker_settings(
        {
            "listeners": "PLAINTEXT://:9092,OUTSIDE://:9093,SASL_SSL://:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL,SASL_SSL:SASL_SSL",
            "ssl.keystore.location": str(store),
            **{name.replace("_", "."): text for name, text in others.items()},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return AUTHORITY.identity("broker", hosts=["localhost"]).write_pem(tmp_path / "broker.pem")


def test_listeners_use_tls_by_protocol_not_by_name(store: Path) -> None:
    settings = settings_with(store)
    listeners = TlsListeners(settings, own_endpoints(settings))
    assert sorted(listeners.by_name) == ["OUTSIDE", "SASL_SSL"]
    assert listeners.towards_brokers(settings, "PLAINTEXT") is None
    assert listeners.towards_brokers(settings, "OUTSIDE") is not None


def test_broker_without_a_keystore_does_not_start(tmp_path: Path) -> None:
    settings = settings_with(tmp_path / "nowhere.pem")
    with pytest.raises(InvalidSetting, match=r"listener OUTSIDE: ssl.keystore.location=.*No such"):
        TlsListeners(settings, own_endpoints(settings))


def test_invalid_principal_mapping_rules_are_rejected_at_startup(store: Path) -> None:
    settings = settings_with(store, ssl_principal_mapping_rules="LOWER")
    with pytest.raises(InvalidSetting, match="expected DEFAULT or"):
        TlsListeners(settings, own_endpoints(settings))


def test_unreadable_store_is_logged_and_the_old_one_stays(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_with(store)
    listeners = TlsListeners(settings, own_endpoints(settings))
    listeners.towards_brokers(settings, "OUTSIDE")
    store.write_text("nothing", encoding="ascii")
    with caplog.at_level(logging.ERROR):
        listeners.configure(settings)
    assert len(caplog.records) == 3
    assert "Keystore reload failed" in caplog.text
