"""CreateAcls: further rules, each for itself."""

from functools import partial

from headwater.broker.acl_messages import read_creation
from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.broker.handlers.describe_acls import DISABLED
from headwater.cluster.acl_changes import create_acls
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(broker: Broker, request: CreateAclsRequest, call: Call) -> CreateAclsResponse | None:
    bindings = [read_creation(each) for each in request.creations]
    if not broker.may(call, Operation.ALTER, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return refuse(request, DISABLED)
    submit(
        broker,
        call,
        partial(create_acls, bindings=bindings),
        respond=lambda outcomes: CreateAclsResponse(results=tuple(map(_result, outcomes))),
        refuse=partial(refuse, request),
    )
    return None


def refuse(request: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(results=tuple(_result(refusal) for _ in request.creations))


def _result(outcome: Refusal) -> AclCreationResult:
    return AclCreationResult(error_code=outcome.code, error_message=outcome.reason)
