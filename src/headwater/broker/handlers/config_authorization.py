"""Authorize requests that describe or alter configs."""

from typing import Final

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.security.authorization.authorizer import CLUSTER, Operation, Resource, ResourceKind

_KINDS: Final = {
    ResourceType.TOPIC: (ResourceKind.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (ResourceKind.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
_OF_THE_CLUSTER: Final = (
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
)


def authorization_error(
    broker: ControllerContext, call: Call, operation: Operation, resource_type: int, name: str
) -> ApiError | None:
    """Return an authorization error, or None.

    Unknown resource types are rejected elsewhere.
    """
    reason = f"not authorized for {operation.name} on {name!r}"
    if resource_type in _OF_THE_CLUSTER:
        if broker.is_authorized(call, operation, CLUSTER):
            return None
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
    if resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
        return None
    kind, code = _KINDS[ResourceType(resource_type)]
    if broker.is_authorized(call, operation, Resource(kind, name)):
        return None
    return ApiError(code, reason)
