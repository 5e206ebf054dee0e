"""Who may see and change the configs of what."""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.config_terms import ResourceType
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation, Resource, ResourceKind

_KINDS: Final = {
    ResourceType.TOPIC: (ResourceKind.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (ResourceKind.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
_OF_THE_CLUSTER: Final = (
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
)


def refuse_unauthorized(
    broker: Broker, call: Call, operation: Operation, resource_type: int, name: str
) -> Refusal | None:
    """Why not. What is no resource at all is nobody's secret, and refused elsewhere."""
    reason = f"{operation.name} of {name!r} is not allowed"
    if resource_type in _OF_THE_CLUSTER:
        if broker.may(call, operation, CLUSTER):
            return None
        return Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
    if resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
        return None
    kind, code = _KINDS[ResourceType(resource_type)]
    if broker.may(call, operation, Resource(kind, name)):
        return None
    return Refusal(code, reason)
