"""AlterPartitionReassignments (RA-1)."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.cluster.decision import Refusal
from headwater.cluster.reassignment import alter_reassignments
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse | None:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(
        results: tuple[ReassignableTopicResponse, ...],
    ) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            # An empty text, and not null, to an empty request: Kafka does this (4.1).
            error_message=None if results else "",
            responses=results,
        )

    submit(
        broker,
        call,
        partial(alter_reassignments, request=request),
        respond=respond,
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def refuse(
    request: AlterPartitionReassignmentsRequest, refusal: Refusal
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.reason,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=refusal.code,
                        error_message=refusal.reason,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
