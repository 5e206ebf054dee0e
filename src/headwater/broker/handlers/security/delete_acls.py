"""DeleteAcls: delete the ACL bindings that match filters, and return them."""

from functools import partial

from headwater.broker.handlers.security.acl_messages import read_filter
from headwater.broker.handlers.security.describe_acls import DISABLED
from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.acl_control import Removed, delete_acls
from headwater.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headwater.security.authorization.acl_bindings import AclBinding
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: DeleteAclsRequest, call: Call
) -> DeleteAclsResponse | None:
    filters = [read_filter(each) for each in request.filters]
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return error_response(request, DISABLED)
    submit(
        broker,
        call,
        partial(delete_acls, filters=filters),
        respond=lambda outcomes: DeleteAclsResponse(filter_results=tuple(map(_result, outcomes))),
        error_response=partial(error_response, request),
    )
    return None


def error_response(request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=tuple(_result(error) for _ in request.filters))


def _result(outcome: Removed | ApiError) -> DeleteAclsFilterResult:
    if isinstance(outcome, ApiError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.reason)
    return DeleteAclsFilterResult(matching_acls=tuple(map(_matching, outcome)))


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        resource_type=pattern.kind,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
