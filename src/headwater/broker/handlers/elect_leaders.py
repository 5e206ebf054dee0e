"""ElectLeaders (PL-1)."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.cluster.decision import Refusal
from headwater.cluster.leadership import PREFERRED, UNCLEAN, elect_leaders
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def handle(broker: Broker, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse | None:
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if request.election_type not in (PREFERRED, UNCLEAN):
        reason = f"there is no election type {request.election_type}"
        return refuse(request, Refusal(ErrorCode.INVALID_REQUEST, reason))
    submit(
        broker,
        call,
        partial(elect_leaders, request=request),
        respond=lambda results: ElectLeadersResponse(replica_election_results=results),
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def refuse(request: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    """Version 0 has no place on top, so every partition has the error too."""
    return ElectLeadersResponse(
        error_code=refusal.code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=number,
                        error_code=refusal.code,
                        error_message=refusal.reason,
                    )
                    for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )
