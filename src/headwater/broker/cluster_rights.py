"""What somebody may do to the cluster as a whole."""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.security.authorization import CLUSTER, Operation, operations_allowed

_NOTHING: Final = 0


def operations_on_cluster(broker: Broker, call: Call) -> int:
    """The bit field of "authorized operations" (AC-6), empty for who may not see the cluster."""
    if not broker.may(call, Operation.DESCRIBE, CLUSTER):
        return _NOTHING
    return operations_allowed(broker.authorizer, call.requester, CLUSTER)
