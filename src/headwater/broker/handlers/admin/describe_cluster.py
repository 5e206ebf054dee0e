"""DescribeCluster: cluster id, controller and brokers."""

from typing import Final

from headwater.broker.handlers.cluster_authorization import authorized_cluster_operations
from headwater.broker.handlers.data.metadata_response import NOT_REQUESTED, brokers_on
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        reason = "this is a broker endpoint, not a controller endpoint"
        return error_response(request, ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, reason))
    if request.endpoint_type != _BROKERS:
        reason = f"unknown endpoint type {request.endpoint_type}"
        return error_response(request, ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, reason))
    image = broker.image
    operations = NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = authorized_cluster_operations(broker, call)
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=broker.controller_access.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in brokers_on(image, call.listener)
        ),
        cluster_authorized_operations=operations,
    )


def error_response(_: DescribeClusterRequest, error: ApiError) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error.code, error_message=error.reason)
