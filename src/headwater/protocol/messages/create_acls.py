"""CreateAcls: create ACL bindings."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class AclCreation:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    resource_pattern_type: int = one("int8", default=3)
    principal: str = one("string", default="")
    host: str = one("string", default="")
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class CreateAclsRequest:
    api: ClassVar = ApiKey.CREATE_ACLS

    creations: tuple[AclCreation, ...] = many(AclCreation, default=())


@protocol_message
class AclCreationResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class CreateAclsResponse:
    api: ClassVar = ApiKey.CREATE_ACLS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[AclCreationResult, ...] = many(AclCreationResult, default=())
