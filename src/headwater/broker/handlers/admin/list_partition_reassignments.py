"""ListPartitionReassignments: ongoing reassignments (RA-1)."""

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.partition_reassignment import list_reassignments
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    moving = list_reassignments(broker.controller.image, request)
    return ListPartitionReassignmentsResponse(topics=moving)


def error_response(
    request: ListPartitionReassignmentsRequest, error: ApiError
) -> ListPartitionReassignmentsResponse:
    """Return the requested partitions without replicas, as Kafka 4.1 does."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.reason,
        topics=tuple(
            OngoingTopicReassignment(
                name=topic.name,
                partitions=tuple(
                    OngoingPartitionReassignment(partition_index=number)
                    for number in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        ),
    )
