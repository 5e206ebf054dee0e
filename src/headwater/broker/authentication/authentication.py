"""Set up SASL on listeners and between brokers, only if it is configured.

Note: these functions import on purpose. A broker without SASL starts faster and is smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headwater.common.ports import Clock, Random
from headwater.common.settings.broker_properties import protocols_by_listener
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.cluster_image import ClusterImage
from headwater.network.endpoint import Endpoint
from headwater.replication.purgatory.timer import Timer

if TYPE_CHECKING:
    from headwater.broker.authentication.sasl_authenticator import AuthenticatedService
    from headwater.broker.authentication.sasl_listener import SaslListener
    from headwater.broker.inter_broker.channel import LogIn
    from headwater.network.request_service import AuthenticatorFactory


def sasl_listeners_of(
    settings: BrokerSettings,
    endpoints: Sequence[Endpoint],
    *,
    clock: Clock,
    rng: Random,
    timer: Timer,
    image: Callable[[], ClusterImage],
) -> "Mapping[str, SaslListener]":
    """Return the listeners that use SASL; SCRAM credentials are read from the image.

    Raises `InvalidSetting`.
    """
    protocols = protocols_by_listener(settings)
    if not any(protocols[each.name].is_sasl for each in endpoints):
        return {}
    from headwater.broker.authentication.sasl_listeners import sasl_listeners
    from headwater.metadata.scram_credentials import credential

    return sasl_listeners(
        settings,
        endpoints,
        clock=clock,
        rng=rng,
        timer=timer,
        scram_users=lambda mechanism, user: credential(image(), mechanism, user),
    )


def authenticators(
    listeners: "Mapping[str, SaslListener]", dispatch: "AuthenticatedService"
) -> "Mapping[str, AuthenticatorFactory]":
    """Return the authenticator factories for new connections, by listener."""
    if not listeners:
        return {}
    from headwater.broker.authentication.sasl_authenticator import sasl_authenticator

    return {
        name: partial(sasl_authenticator, listener=listener, dispatch=dispatch)
        for name, listener in listeners.items()
    }


def inter_broker_login(settings: BrokerSettings, listener: str, rng: Random) -> "LogIn | None":
    """Return how this broker authenticates to other brokers; None without SASL."""
    if not protocols_by_listener(settings)[listener].is_sasl:
        return None
    from headwater.broker.authentication.sasl_listeners import inter_broker_credentials

    return partial(inter_broker_credentials(settings, listener).login, rng)


def controller_login(
    settings: BrokerSettings, listener: str, mechanism: str | None, rng: Random
) -> "LogIn | None":
    """Return how this node authenticates to controllers; None without SASL.

    `mechanism` is `sasl.mechanism.controller.protocol`.
    """
    if not protocols_by_listener(settings)[listener].is_sasl:
        return None
    from headwater.broker.authentication.sasl_listeners import controller_credentials

    return partial(controller_credentials(settings, listener, mechanism).login, rng)
