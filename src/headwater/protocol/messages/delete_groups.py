"""DeleteGroups: delete empty groups."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DeleteGroupsRequest:
    api: ClassVar = ApiKey.DELETE_GROUPS

    groups_names: tuple[str, ...] = many("string", default=())


@protocol_message
class DeletableGroupResult:
    group_id: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class DeleteGroupsResponse:
    api: ClassVar = ApiKey.DELETE_GROUPS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[DeletableGroupResult, ...] = many(DeletableGroupResult, default=())
