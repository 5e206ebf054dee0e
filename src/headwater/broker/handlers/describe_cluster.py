"""DescribeCluster: which brokers there are."""

from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.cluster_rights import operations_on_cluster
from headwater.broker.metadata_answers import UNASKED, brokers_on
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        reason = "brokers listen here, and no controllers"
        return refuse(request, Refusal(ErrorCode.MISMATCHED_ENDPOINT_TYPE, reason))
    if request.endpoint_type != _BROKERS:
        reason = f"there is no endpoint type {request.endpoint_type}"
        return refuse(request, Refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, reason))
    image = broker.image
    operations = UNASKED
    if request.include_cluster_authorized_operations:
        operations = operations_on_cluster(broker, call)
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in brokers_on(image, call.listener)
        ),
        cluster_authorized_operations=operations,
    )


def refuse(_: DescribeClusterRequest, refusal: Refusal) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=refusal.code, error_message=refusal.reason)
