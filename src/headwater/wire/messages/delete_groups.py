"""DeleteGroups: delete empty groups."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class DeleteGroupsRequest:
    api: ClassVar = ApiKey.DELETE_GROUPS

    groups_names: tuple[str, ...] = many("string", default=())


@shape
class DeletableGroupResult:
    group_id: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@shape
class DeleteGroupsResponse:
    api: ClassVar = ApiKey.DELETE_GROUPS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[DeletableGroupResult, ...] = many(DeletableGroupResult, default=())
