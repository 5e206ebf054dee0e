"""AlterPartition: change the ISR of partitions for their leaders (ISR-6)."""

from functools import partial

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.controller.alter_partition import alter_partition
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: AlterPartitionRequest, call: Call
) -> AlterPartitionResponse | None:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        call.answer(error_response(request, ApiError(error.code, None)))

    broker.controller.submit(
        partial(alter_partition, request=request), then=call.answer, on_error=failed
    )
    return None


def error_response(_: AlterPartitionRequest, error: ApiError) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=error.code)
