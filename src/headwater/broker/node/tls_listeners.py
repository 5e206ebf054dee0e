"""TLS settings of each listener and of connections to other brokers.

Keystores and truststores are read at startup, and again whenever one of their settings is altered,
even to the same value. That is how renewed certificates are loaded for new connections: alter
`listener.name.<listener>.ssl.keystore.location`. If a store cannot be read then, the error is
logged and the old one stays in use.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from headwater.broker.node.listeners import protocol_of
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.ssl_settings import ListenerSslSettings
from headwater.network.endpoint import Endpoint
from headwater.network.tls.tls_endpoints import ClientTls, ListenerTls, PrincipalOf
from headwater.security.authentication.ssl_principal import anonymous, principal_by

_log = logging.getLogger(__name__)

_CLIENT_AUTH: Final = "ssl.client.auth"


class TlsListeners:
    """The TLS settings of one broker."""

    def __init__(self, settings: BrokerSettings, endpoints: Sequence[Endpoint]) -> None:
        """Raises `InvalidSetting` if a store cannot be read or lacks a required entry."""
        self._by_name: dict[str, ListenerTls] = {}
        for name in (endpoint.name for endpoint in endpoints):
            if protocol_of(settings, name).is_tls:
                try:
                    self._by_name[name] = ListenerTls(*_settings_and_rules(settings, name))
                except InvalidSetting as error:
                    raise InvalidSetting(f"listener {name}: {error}") from error
        self._towards_brokers: list[tuple[str, ClientTls]] = []

    @property
    def by_name(self) -> Mapping[str, ListenerTls]:
        return self._by_name

    def towards_brokers(self, settings: BrokerSettings, listener: str) -> ClientTls | None:
        """Return the TLS settings for connections to a listener; None if plaintext."""
        if not protocol_of(settings, listener).is_tls:
            return None
        towards = ClientTls(_settings_of(settings, listener))
        self._towards_brokers.append((listener, towards))
        return towards

    def configure(self, settings: BrokerSettings) -> None:
        """Reload all stores for new connections."""
        for name, tls in self._by_name.items():
            try:
                tls.reconfigure(*_settings_and_rules(settings, name))
            except InvalidSetting as error:
                _log.error(
                    "Keystore reload failed, keeping the old one: listener=%s error=%s", name, error
                )
        for listener, towards in self._towards_brokers:
            try:
                towards.reconfigure(_settings_of(settings, listener))
            except InvalidSetting as error:
                _log.error(
                    "Keystore reload failed, keeping the old one: listener=inter-broker error=%s",
                    error,
                )


def _settings_and_rules(
    settings: BrokerSettings, listener: str
) -> tuple[ListenerSslSettings, PrincipalOf]:
    own_settings = _settings_of(settings, listener)
    if protocol_of(settings, listener).is_sasl:
        return own_settings, anonymous
    return own_settings, principal_by(own_settings.ssl_principal_mapping_rules)


def _settings_of(settings: BrokerSettings, listener: str) -> ListenerSslSettings:
    texts = settings.listener_texts.of(listener)
    own = texts.read(ListenerSslSettings)
    if protocol_of(settings, listener).is_sasl and not texts.is_own(_CLIENT_AUTH):
        # SASL clients need no certificate unless this listener requires one, as in Kafka 4.1.
        return replace(own, ssl_client_auth="none")
    return own
