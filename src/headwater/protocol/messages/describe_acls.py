"""DescribeAcls: list ACLs matching a filter."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeAclsRequest:
    api: ClassVar = ApiKey.DESCRIBE_ACLS

    resource_type_filter: int = one("int8", default=0)
    resource_name_filter: str | None = one("string", default="", nullable_since=0)
    pattern_type_filter: int = one("int8", default=3)
    principal_filter: str | None = one("string", default="", nullable_since=0)
    host_filter: str | None = one("string", default="", nullable_since=0)
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class AclDescription:
    principal: str = one("string", default="")
    host: str = one("string", default="")
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class DescribeAclsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    pattern_type: int = one("int8", default=3)
    acls: tuple[AclDescription, ...] = many(AclDescription, default=())


@protocol_message
class DescribeAclsResponse:
    api: ClassVar = ApiKey.DESCRIBE_ACLS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resources: tuple[DescribeAclsResource, ...] = many(DescribeAclsResource, default=())
