"""CreateAcls: create ACL bindings."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class AclCreation:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    resource_pattern_type: int = one("int8", default=3)
    principal: str = one("string", default="")
    host: str = one("string", default="")
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@shape
class CreateAclsRequest:
    api: ClassVar = ApiKey.CREATE_ACLS

    creations: tuple[AclCreation, ...] = many(AclCreation, default=())


@shape
class AclCreationResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@shape
class CreateAclsResponse:
    api: ClassVar = ApiKey.CREATE_ACLS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[AclCreationResult, ...] = many(AclCreationResult, default=())
