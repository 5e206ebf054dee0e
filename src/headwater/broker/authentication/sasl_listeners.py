"""Read the SASL settings of all listeners and of inter-broker connections.

All errors in these settings are found here, before a directory is touched. PLAIN users are in a
setting of the broker; SCRAM credentials are in the cluster's metadata and looked up at each
authentication.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from headwater.broker.authentication.sasl_listener import OfferedMechanism, SaslListener
from headwater.common.exceptions import InvalidSetting
from headwater.common.ports import Clock, Random
from headwater.common.settings.broker_properties import protocols_by_listener
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.sasl_settings import ListenerSaslSettings
from headwater.network.background_calls import BackgroundCalls, run_in_thread
from headwater.network.endpoint import Endpoint
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication import oauth_bearer, plain_mechanism, scram
from headwater.security.authentication.jaas_config import read_jaas
from headwater.security.authentication.plain_mechanism import PlainServer, passwords
from headwater.security.authentication.sasl_credentials import (
    MECHANISMS,
    Credentials,
    credentials,
    known_mechanism,
)
from headwater.security.authentication.sasl_exchange import SaslServer
from headwater.security.authentication.scram import ScramCredential, ScramMechanism
from headwater.security.authentication.scram_server import ScramServer

_SECRET_BYTES: Final = 32

ScramUsers = Callable[[ScramMechanism, str], ScramCredential | None]
"""Looks up a user's SCRAM credential; None if there is none."""


def sasl_listeners(
    settings: BrokerSettings,
    endpoints: Sequence[Endpoint],
    *,
    clock: Clock,
    rng: Random,
    timer: Timer,
    scram_users: ScramUsers,
    background_calls: BackgroundCalls = run_in_thread,
) -> Mapping[str, SaslListener]:
    """Return the SASL listeners, by name."""
    protocols = protocols_by_listener(settings)
    # One secret for all listeners: the fake salts of unknown users must be the same on each.
    secret = rng.bytes(_SECRET_BYTES)

    def offered(listener: str, mechanism: str) -> OfferedMechanism:
        own_settings = _settings_of(settings, listener, mechanism)
        if mechanism == oauth_bearer.MECHANISM:
            from headwater.broker.authentication.oauth_listeners import offered_oauth

            return offered_oauth(
                settings,
                listener,
                max_reauth_ms=own_settings.connections_max_reauth_ms,
                clock=clock,
                timer=timer,
                background_calls=background_calls,
            )
        return OfferedMechanism(
            begin=_exchange_factory(settings, listener, mechanism, rng, scram_users, secret),
            max_reauth_ms=own_settings.connections_max_reauth_ms,
        )

    def listener(name: str) -> SaslListener:
        own_settings = _settings_of(settings, name)
        return SaslListener(
            name=name,
            mechanisms={each: offered(name, each) for each in _enabled(settings, name)},
            clock=clock,
            timer=timer,
            receive_limit_bytes=own_settings.sasl_server_max_receive_size,
            request_limit_bytes=settings.socket_request_max_bytes,
            failed_delay_ms=settings.connection_failed_authentication_delay_ms,
        )

    return {each.name: listener(each.name) for each in endpoints if protocols[each.name].is_sasl}


def inter_broker_credentials(settings: BrokerSettings, listener: str) -> Credentials:
    """Return this broker's credentials for inter-broker connections."""
    name = "sasl.mechanism.inter.broker.protocol"
    mechanism = known_mechanism(settings.sasl_mechanism_inter_broker_protocol, name)
    if mechanism == oauth_bearer.MECHANISM:
        raise InvalidSetting(
            f"{name}={mechanism}: inter-broker authentication supports PLAIN and SCRAM; "
            f"use a separate inter-broker listener if clients use {mechanism}"
        )
    if mechanism not in _enabled(settings, listener):
        raise InvalidSetting(f"{name}={mechanism} is not enabled on listener {listener}")
    return _own_credentials(settings, listener, mechanism, "inter-broker authentication")


def controller_credentials(
    settings: BrokerSettings, listener: str, mechanism: str | None
) -> Credentials:
    """Return this node's credentials for connections to controllers."""
    name = "sasl.mechanism.controller.protocol"
    checked = known_mechanism(mechanism, name)
    if checked == oauth_bearer.MECHANISM:
        raise InvalidSetting(f"{name}={checked}: controllers support PLAIN and SCRAM")
    return _own_credentials(settings, listener, checked, "authentication to controllers")


def _own_credentials(
    settings: BrokerSettings, listener: str, mechanism: str, purpose: str
) -> Credentials:
    jaas = _settings_of(settings, listener, mechanism).sasl_jaas_config
    if jaas is None:
        raise InvalidSetting(
            f"no credentials for {purpose} with {mechanism}: set {_jaas_name(listener, mechanism)}"
        )
    return credentials(mechanism, jaas=jaas.reveal(), user=None, password=None)


def _settings_of(
    settings: BrokerSettings, listener: str, mechanism: str | None = None
) -> ListenerSaslSettings:
    return settings.listener_texts.of(listener).read(ListenerSaslSettings, mechanism=mechanism)


def _enabled(settings: BrokerSettings, listener: str) -> Sequence[str]:
    own_settings = _settings_of(settings, listener)
    enabled = own_settings.sasl_enabled_mechanisms
    if not enabled:
        raise InvalidSetting(
            f"listener {listener} uses SASL: "
            f"set sasl.enabled.mechanisms to one or more of {', '.join(MECHANISMS)}"
        )
    return [known_mechanism(each, "sasl.enabled.mechanisms") for each in enabled]


def _exchange_factory(
    settings: BrokerSettings,
    listener: str,
    mechanism: str,
    rng: Random,
    scram_users: ScramUsers,
    secret: bytes,
) -> Callable[[], SaslServer]:
    scram_mechanism = scram.BY_NAME.get(mechanism)
    if scram_mechanism is None:
        return partial(PlainServer, passwords(_plain_users(settings, listener)))
    users = partial(scram_users, scram_mechanism)
    return partial(ScramServer, scram_mechanism, users, rng, secret=secret)


def _plain_users(settings: BrokerSettings, listener: str) -> Mapping[str, str]:
    own_settings = _settings_of(settings, listener, plain_mechanism.MECHANISM)
    jaas = own_settings.sasl_jaas_config
    name = _jaas_name(listener, plain_mechanism.MECHANISM)
    if jaas is None:
        raise InvalidSetting(
            f"PLAIN needs its users: set {name} to "
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="..." ;'
        )
    login = read_jaas(jaas.reveal())
    if login.module != "PlainLoginModule":
        raise InvalidSetting(f"{name} has {login.module}, but PLAIN needs PlainLoginModule")
    return login.users


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
