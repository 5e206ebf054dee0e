"""ElectLeaders: elect preferred or unclean leaders (PL-1)."""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.elect_leaders import PREFERRED, UNCLEAN, elect_leaders
from headwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse | None:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if request.election_type not in (PREFERRED, UNCLEAN):
        reason = f"unknown election type {request.election_type}"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    submit(
        broker,
        call,
        partial(elect_leaders, request=request),
        respond=lambda results: ElectLeadersResponse(replica_election_results=results),
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def error_response(request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    """Return the error for every partition too: version 0 has no top-level error."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=number,
                        error_code=error.code,
                        error_message=error.reason,
                    )
                    for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )
