"""SyncGroup: the group leader sends the assignments, each member receives its own."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class SyncGroupRequestAssignment:
    member_id: str = one("string", default="")
    assignment: bytes = one("bytes", default=b"")


@protocol_message
class SyncGroupRequest:
    api: ClassVar = ApiKey.SYNC_GROUP

    group_id: str = one("string", default="")
    generation_id: int = one("int32", default=0)
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default=None, since=3, nullable_since=3)
    protocol_type: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )
    protocol_name: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )
    assignments: tuple[SyncGroupRequestAssignment, ...] = many(
        SyncGroupRequestAssignment, default=()
    )


@protocol_message
class SyncGroupResponse:
    api: ClassVar = ApiKey.SYNC_GROUP

    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    protocol_type: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )
    protocol_name: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )
    assignment: bytes = one("bytes", default=b"")
