"""DeleteAcls: the rules that some filters mean go, and are told."""

from functools import partial

from headwater.broker.acl_messages import read_filter
from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.broker.handlers.describe_acls import DISABLED
from headwater.cluster.acl_changes import Removed, delete_acls
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.acls.bindings import AclBinding
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(broker: Broker, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse | None:
    filters = [read_filter(each) for each in request.filters]
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return refuse(request, DISABLED)
    submit(
        broker,
        call,
        partial(delete_acls, filters=filters),
        respond=lambda outcomes: DeleteAclsResponse(filter_results=tuple(map(_result, outcomes))),
        refuse=partial(refuse, request),
    )
    return None


def refuse(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=tuple(_result(refusal) for _ in request.filters))


def _result(outcome: Removed | Refusal) -> DeleteAclsFilterResult:
    if isinstance(outcome, Refusal):
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
