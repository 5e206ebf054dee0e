"""ListPartitionReassignments (RA-1)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.cluster.reassignment import list_reassignments
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    if not broker.may(call, Operation.DESCRIBE, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    moving = list_reassignments(broker.controller.image, request)
    return ListPartitionReassignmentsResponse(topics=moving)


def refuse(
    request: ListPartitionReassignmentsRequest, refusal: Refusal
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
