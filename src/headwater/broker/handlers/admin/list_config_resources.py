"""ListConfigResources: names of resources that have configs.

As in Kafka 4.1, these are all topics and all brokers, whether or not any config was set, but only
groups with configs. Client metrics subscriptions are not supported.
"""

from collections.abc import Iterable
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation

# In the order of Kafka's response.
_KNOWN: Final = tuple(each for each in reversed(ResourceType) if each.is_named_by_requests)


def handle(
    broker: Broker, request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE_CONFIGS, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    asked = request.resource_types or _KNOWN
    if any(each not in _KNOWN for each in asked):
        return error_response(request, ApiError(ErrorCode.UNSUPPORTED_VERSION, None))
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=each)
            for each in _KNOWN
            if each in asked
            for name in _names(broker.image, each)
        )
    )


def error_response(_: ListConfigResourcesRequest, error: ApiError) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error.code)


def _names(image: ClusterImage, resource_type: int) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return sorted(image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, sorted(image.brokers))
        case ResourceType.GROUP:
            return sorted(
                each.name for each in image.configs if each.resource_type is ResourceType.GROUP
            )
        case _:
            return ()
