"""ControlledShutdown: a broker wants to stop, and first hands over what it leads (CS-1)."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


def handle(
    broker: Broker, request: ControlledShutdownRequest, call: Call
) -> ControlledShutdownResponse | None:
    if not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    leading = broker.membership.leading
    if leading is None:
        return refuse(request, Refusal(ErrorCode.NOT_CONTROLLER, None))

    def failed(error: HeadwaterError) -> None:
        call.note_error(error.code)
        call.answer(refuse(request, Refusal(error.code, None)))

    leading.controlled_shutdown(request, then=call.answer, otherwise=failed)
    return None


def refuse(_: ControlledShutdownRequest, refusal: Refusal) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=refusal.code)
