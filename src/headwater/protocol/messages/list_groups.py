"""ListGroups: list groups hosted by this broker; v4 filter by state, v5 by type."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ListGroupsRequest:
    api: ClassVar = ApiKey.LIST_GROUPS

    states_filter: tuple[str, ...] = many("string", default=(), since=4)
    types_filter: tuple[str, ...] = many("string", default=(), since=5)


@protocol_message
class ListedGroup:
    group_id: str = one("string", default="")
    protocol_type: str = one("string", default="")
    group_state: str = one("string", default="", since=4, ignorable=True)
    group_type: str = one("string", default="", since=5, ignorable=True)


@protocol_message
class ListGroupsResponse:
    api: ClassVar = ApiKey.LIST_GROUPS

    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    groups: tuple[ListedGroup, ...] = many(ListedGroup, default=())
