"""AlterPartitionReassignments: start, change or cancel reassignments (RA-1)."""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.partition_reassignment import alter_reassignments
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse | None:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(
        results: tuple[ReassignableTopicResponse, ...],
    ) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            # An empty string instead of null for an empty request, as in Kafka 4.1.
            error_message=None if results else "",
            responses=results,
        )

    submit(
        broker,
        call,
        partial(alter_reassignments, request=request),
        respond=respond,
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def error_response(
    request: AlterPartitionReassignmentsRequest, error: ApiError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.reason,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.reason,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
