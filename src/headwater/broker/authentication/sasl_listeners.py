"""Which listeners ask for a login, how, and as whom this broker logs in at others.

Everything that settings can have wrong is found here, before a directory is touched. What a reader
would get wrong: the users of PLAIN stand in a setting of the broker, those of SCRAM in the
cluster's facts, where they are looked up at each login.
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
"""What is kept of a user's password; None for nobody."""


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
    """Those of the endpoints that ask for a login, by name."""
    protocols = protocols_by_listener(settings)
    # One for all listeners: the salt of somebody unknown must not tell one from another.
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
            begin=_beginning(settings, listener, mechanism, rng, scram_users, secret),
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
    """As whom this broker logs in at the others, on a listener that asks for it."""
    name = "sasl.mechanism.inter.broker.protocol"
    mechanism = known_mechanism(settings.sasl_mechanism_inter_broker_protocol, name)
    if mechanism == oauth_bearer.MECHANISM:
        raise InvalidSetting(
            f"{name}={mechanism}: brokers log in at each other by PLAIN or SCRAM, "
            f"on a listener of their own if need be"
        )
    if mechanism not in _enabled(settings, listener):
        raise InvalidSetting(f"{name}={mechanism}: listener {listener} does not enable it")
    own_settings = _settings_of(settings, listener, mechanism)
    jaas = own_settings.sasl_jaas_config
    if jaas is None:
        raise InvalidSetting(
            f"brokers log in at each other with {mechanism}, and {_jaas_name(listener, mechanism)} "
            "does not say as whom"
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
            f"listener {listener} asks for a login: "
            f"set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}"
        )
    return [known_mechanism(each, "sasl.enabled.mechanisms") for each in enabled]


def _beginning(
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
        raise InvalidSetting(f"{name} is for {login.module}, and PLAIN needs PlainLoginModule")
    return login.users


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
