"""Authorized operations on the cluster, for DescribeCluster and Metadata."""

from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.security.authorization.authorizer import CLUSTER, Operation, operations_allowed

_NOTHING: Final = 0


def authorized_cluster_operations(broker: Broker, call: Call) -> int:
    """Return the bit field of authorized operations (AC-6); 0 without Describe."""
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return _NOTHING
    return operations_allowed(broker.authorizer, call.requester, CLUSTER)
