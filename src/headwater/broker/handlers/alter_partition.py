"""AlterPartition: a leader wants other in-sync replicas (ISR-6)."""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.cluster.in_sync import alter_partition
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(
    broker: Broker, request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse | None:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.note_error(error.code)
        call.answer(refuse(request, Refusal(error.code, None)))

    broker.controller.submit(
        partial(alter_partition, request=request), then=call.answer, otherwise=failed
    )
    return None


def refuse(_: AlterPartitionRequest, refusal: Refusal) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=refusal.code)
