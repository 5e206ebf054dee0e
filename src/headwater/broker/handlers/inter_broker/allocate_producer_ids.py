"""AllocateProducerIds: allocate a block of producer ids to a broker."""

from functools import partial

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.controller.producer_id_control import allocate_producer_ids
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: AllocateProducerIdsRequest, call: Call
) -> AllocateProducerIdsResponse | None:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, None)))

    broker.controller.submit(
        partial(allocate_producer_ids, request=request), then=call.answer, on_error=failed
    )
    return None


def error_response(_: AllocateProducerIdsRequest, error: ApiError) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error.code)
