"""DeleteAcls: delete ACLs by filter."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DeleteAclsFilter:
    resource_type_filter: int = one("int8", default=0)
    resource_name_filter: str | None = one("string", default="", nullable_since=0)
    pattern_type_filter: int = one("int8", default=3)
    principal_filter: str | None = one("string", default="", nullable_since=0)
    host_filter: str | None = one("string", default="", nullable_since=0)
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class DeleteAclsRequest:
    api: ClassVar = ApiKey.DELETE_ACLS

    filters: tuple[DeleteAclsFilter, ...] = many(DeleteAclsFilter, default=())


@protocol_message
class DeleteAclsMatchingAcl:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    pattern_type: int = one("int8", default=3)
    principal: str = one("string", default="")
    host: str = one("string", default="")
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class DeleteAclsFilterResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = many(DeleteAclsMatchingAcl, default=())


@protocol_message
class DeleteAclsResponse:
    api: ClassVar = ApiKey.DELETE_ACLS

    throttle_time_ms: int = one("int32", default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = many(DeleteAclsFilterResult, default=())
