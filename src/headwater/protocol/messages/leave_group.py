"""LeaveGroup: leave a classic group; since version 3 for several members.

Members are named by member id or group.instance.id.
"""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import the_only
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class LeaveGroupRequestUpToV2:
    group_id: str = one("string", default="")
    member_id: str = one("string", default="")

    def lift(self) -> "LeaveGroupRequest":
        return LeaveGroupRequest(
            group_id=self.group_id, members=(MemberIdentity(member_id=self.member_id),)
        )

    @classmethod
    def lower(cls, message: "LeaveGroupRequest") -> Self:
        member = the_only(message.members)
        if member.group_instance_id is not None:
            raise UnsupportedInVersion("up to version 2 there are no static members")
        return cls(group_id=message.group_id, member_id=member.member_id)


@protocol_message
class MemberIdentity:
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default=None, nullable_since=0)
    reason: str | None = one("string", default=None, since=5, nullable_since=5, ignorable=True)


@protocol_message
class LeaveGroupRequest:
    api: ClassVar = ApiKey.LEAVE_GROUP
    older: ClassVar = {2: LeaveGroupRequestUpToV2}

    group_id: str = one("string", default="")
    members: tuple[MemberIdentity, ...] = many(MemberIdentity, default=())


@protocol_message
class LeaveGroupResponseUpToV2:
    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)

    def lift(self) -> "LeaveGroupResponse":
        """The member is not in the response; the caller knows it."""
        member = MemberResponse(error_code=self.error_code)
        return LeaveGroupResponse(throttle_time_ms=self.throttle_time_ms, members=(member,))

    @classmethod
    def lower(cls, message: "LeaveGroupResponse") -> Self:
        # If the whole request failed there are no members in the response.
        error_code = message.error_code or the_only(message.members).error_code
        return cls(throttle_time_ms=message.throttle_time_ms, error_code=error_code)


@protocol_message
class MemberResponse:
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default="", nullable_since=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class LeaveGroupResponse:
    api: ClassVar = ApiKey.LEAVE_GROUP
    older: ClassVar = {2: LeaveGroupResponseUpToV2}

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    members: tuple[MemberResponse, ...] = many(MemberResponse, default=())
