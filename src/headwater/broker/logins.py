"""The logins of a broker, loaded only where a listener asks for one.

What a reader would get wrong: the imports within these functions are on purpose. A broker without
SASL starts sooner and is smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headwater.cluster.image import ClusterImage
from headwater.model.broker_properties import protocols_by_listener
from headwater.model.broker_settings import BrokerSettings
from headwater.model.ports import Clock, Dice
from headwater.net.endpoint import Endpoint
from headwater.replication.deadlines import Deadlines

if TYPE_CHECKING:
    from headwater.broker.colleague_link import LogIn
    from headwater.broker.dispatch import Dispatch
    from headwater.broker.sasl_listener import SaslListener
    from headwater.net.service import Guard


def login_listeners(
    settings: BrokerSettings,
    endpoints: Sequence[Endpoint],
    *,
    clock: Clock,
    dice: Dice,
    deadlines: Deadlines,
    image: Callable[[], ClusterImage],
) -> "Mapping[str, SaslListener]":
    """Those that ask for a login, whose users of SCRAM are in the image; `InvalidSetting`."""
    protocols = protocols_by_listener(settings)
    if not any(protocols[each.name].is_sasl for each in endpoints):
        return {}
    from headwater.broker.sasl_listeners import sasl_listeners
    from headwater.cluster.scram_users import credential

    return sasl_listeners(
        settings,
        endpoints,
        clock=clock,
        dice=dice,
        deadlines=deadlines,
        scram_users=lambda mechanism, user: credential(image(), mechanism, user),
    )


def guards(listeners: "Mapping[str, SaslListener]", dispatch: "Dispatch") -> "Mapping[str, Guard]":
    """Who stands before new connections of these listeners."""
    if not listeners:
        return {}
    from headwater.broker.sasl_gate import guard

    return {
        name: partial(guard, listener=listener, dispatch=dispatch)
        for name, listener in listeners.items()
    }


def login_between_brokers(settings: BrokerSettings, listener: str, dice: Dice) -> "LogIn | None":
    """How this broker logs in at the others; None where they do not ask."""
    if not protocols_by_listener(settings)[listener].is_sasl:
        return None
    from headwater.broker.sasl_listeners import credentials_between_brokers

    return partial(credentials_between_brokers(settings, listener).login, dice)
