"""The logins of a broker, loaded only where a listener asks for one.

What a reader would get wrong: the imports within these functions are on purpose. A broker without
SASL starts sooner and is smaller.
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
    from headwater.broker.authentication.sasl_listener import SaslListener
    from headwater.broker.inter_broker.channel import LogIn
    from headwater.broker.requests.dispatch import Dispatch
    from headwater.network.request_service import Guard


def sasl_listeners_of(
    settings: BrokerSettings,
    endpoints: Sequence[Endpoint],
    *,
    clock: Clock,
    rng: Random,
    timer: Timer,
    image: Callable[[], ClusterImage],
) -> "Mapping[str, SaslListener]":
    """Those that ask for a login, whose users of SCRAM are in the image; `InvalidSetting`."""
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


def guards(listeners: "Mapping[str, SaslListener]", dispatch: "Dispatch") -> "Mapping[str, Guard]":
    """Who stands before new connections of these listeners."""
    if not listeners:
        return {}
    from headwater.broker.authentication.sasl_authenticator import sasl_authenticator

    return {
        name: partial(sasl_authenticator, listener=listener, dispatch=dispatch)
        for name, listener in listeners.items()
    }


def inter_broker_login(settings: BrokerSettings, listener: str, rng: Random) -> "LogIn | None":
    """How this broker logs in at the others; None where they do not ask."""
    if not protocols_by_listener(settings)[listener].is_sasl:
        return None
    from headwater.broker.authentication.sasl_listeners import inter_broker_credentials

    return partial(inter_broker_credentials(settings, listener).login, rng)
