"""DescribeAcls: the rules that a filter means.

Every broker answers it from what the store has told, as Kafka's do.
"""

from collections.abc import Iterable
from itertools import groupby

from headwater.broker.acl_messages import read_filter
from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.acl_changes import acls_of
from headwater.cluster.decision import Refusal
from headwater.model.errors import ErrorCode
from headwater.security.acls.bindings import AclBinding
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

DISABLED = Refusal(
    ErrorCode.SECURITY_DISABLED, "this broker has no authorizer: set authorizer.class.name"
)


def handle(broker: Broker, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    wanted = read_filter(request)
    if not broker.may(call, Operation.DESCRIBE, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return refuse(request, DISABLED)
    return DescribeAclsResponse(resources=_resources(acls_of(broker.image, wanted)))


def refuse(_: DescribeAclsRequest, refusal: Refusal) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=refusal.code, error_message=refusal.reason)


def _resources(bindings: Iterable[AclBinding]) -> tuple[DescribeAclsResource, ...]:
    return tuple(
        DescribeAclsResource(
            resource_type=pattern.kind,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            acls=tuple(
                AclDescription(
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for _, entry in found
            ),
        )
        for pattern, found in groupby(bindings, key=lambda binding: binding.pattern)
    )
