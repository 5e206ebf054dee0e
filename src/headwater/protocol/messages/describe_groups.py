"""DescribeGroups: state, members and assignments of classic groups."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeGroupsRequest:
    api: ClassVar = ApiKey.DESCRIBE_GROUPS

    groups: tuple[str, ...] = many("string", default=())
    include_authorized_operations: bool = one("bool", default=False, since=3)


@protocol_message
class DescribedGroupMember:
    member_id: str = one("string", default="")
    group_instance_id: str | None = one(
        "string", default=None, since=4, nullable_since=4, ignorable=True
    )
    client_id: str = one("string", default="")
    client_host: str = one("string", default="")
    member_metadata: bytes = one("bytes", default=b"")
    member_assignment: bytes = one("bytes", default=b"")


@protocol_message
class DescribedGroup:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, since=6, nullable_since=6)
    group_id: str = one("string", default="")
    group_state: str = one("string", default="")
    protocol_type: str = one("string", default="")
    protocol_data: str = one("string", default="")
    members: tuple[DescribedGroupMember, ...] = many(DescribedGroupMember, default=())
    authorized_operations: int = one("int32", default=-2147483648, since=3)


@protocol_message
class DescribeGroupsResponse:
    api: ClassVar = ApiKey.DESCRIBE_GROUPS

    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    groups: tuple[DescribedGroup, ...] = many(DescribedGroup, default=())
