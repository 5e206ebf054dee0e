"""ListPartitionReassignments (RA-1)."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.controller.partition_reassignment import list_reassignments
from headwater.metadata.controller_result import ApiError
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    moving = list_reassignments(broker.controller.image, request)
    return ListPartitionReassignmentsResponse(topics=moving)


def error_response(
    request: ListPartitionReassignmentsRequest, refusal: ApiError
) -> ListPartitionReassignmentsResponse:
    """What was asked for comes back empty, as if it moved from nowhere: Kafka does this (4.1)."""
    return ListPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.reason,
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
