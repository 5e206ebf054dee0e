"""AlterClientQuotas: change client quotas (KIP-546)."""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.client_quota_control import alter_client_quotas, error_entry
from headwater.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse | None:
    if not broker.is_authorized(call, Operation.ALTER_CONFIGS, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    submit(
        broker,
        call,
        partial(alter_client_quotas, request=request),
        respond=lambda results: AlterClientQuotasResponse(entries=results),
        error_response=partial(error_response, request),
    )
    return None


def error_response(request: AlterClientQuotasRequest, error: ApiError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(error_entry(entry, error) for entry in request.entries)
    )
