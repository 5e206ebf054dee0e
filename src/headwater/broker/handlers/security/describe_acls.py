"""DescribeAcls: ACL bindings that match a filter.

Every broker answers from its own metadata, as in Kafka.
"""

from collections.abc import Iterable
from itertools import groupby

from headwater.broker.handlers.security.acl_messages import read_filter
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.acl_control import acls_of
from headwater.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headwater.security.authorization.acl_bindings import AclBinding
from headwater.security.authorization.authorizer import CLUSTER, Operation

DISABLED = ApiError(
    ErrorCode.SECURITY_DISABLED, "this broker has no authorizer: set authorizer.class.name"
)


def handle(
    broker: ControllerContext, request: DescribeAclsRequest, call: Call
) -> DescribeAclsResponse:
    wanted = read_filter(request)
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    if broker.authorizer.allows_everything:
        return error_response(request, DISABLED)
    return DescribeAclsResponse(resources=_resources(acls_of(broker.image, wanted)))


def error_response(_: DescribeAclsRequest, error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.reason)


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
