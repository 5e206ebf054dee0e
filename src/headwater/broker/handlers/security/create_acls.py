"""CreateAcls: add ACL bindings, with a result for each."""

from functools import partial

from headwater.broker.handlers.security.acl_messages import read_creation
from headwater.broker.handlers.security.describe_acls import DISABLED
from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.acl_control import create_acls
from headwater.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: CreateAclsRequest, call: Call
) -> CreateAclsResponse | None:
    bindings = [read_creation(each) for each in request.creations]
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return error_response(request, DISABLED)
    submit(
        broker,
        call,
        partial(create_acls, bindings=bindings),
        respond=lambda outcomes: CreateAclsResponse(results=tuple(map(_result, outcomes))),
        error_response=partial(error_response, request),
    )
    return None


def error_response(request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(results=tuple(_result(error) for _ in request.creations))


def _result(outcome: ApiError) -> AclCreationResult:
    return AclCreationResult(error_code=outcome.code, error_message=outcome.reason)
