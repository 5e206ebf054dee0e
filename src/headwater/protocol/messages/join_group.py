"""JoinGroup: join a classic group; long-polls until the rebalance join phase ends."""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class JoinGroupRequestProtocol:
    name: str = one("string", default="")
    metadata: bytes = one("bytes", default=b"")


@protocol_message
class JoinGroupRequestUpToV0:
    group_id: str = one("string", default="")
    session_timeout_ms: int = one("int32", default=0)
    member_id: str = one("string", default="")
    protocol_type: str = one("string", default="")
    protocols: tuple[JoinGroupRequestProtocol, ...] = many(JoinGroupRequestProtocol, default=())

    def lift(self) -> "JoinGroupRequest":
        """Version 0 has one timeout for both purposes."""
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.session_timeout_ms,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
        )

    @classmethod
    def lower(cls, message: "JoinGroupRequest") -> Self:
        return cls(
            group_id=message.group_id,
            session_timeout_ms=message.session_timeout_ms,
            member_id=message.member_id,
            protocol_type=message.protocol_type,
            protocols=message.protocols,
        )


@protocol_message
class JoinGroupRequest:
    api: ClassVar = ApiKey.JOIN_GROUP
    older: ClassVar = {0: JoinGroupRequestUpToV0}

    group_id: str = one("string", default="")
    session_timeout_ms: int = one("int32", default=0)
    rebalance_timeout_ms: int = one("int32", default=-1)
    member_id: str = one("string", default="")
    group_instance_id: str | None = one("string", default=None, since=5, nullable_since=5)
    protocol_type: str = one("string", default="")
    protocols: tuple[JoinGroupRequestProtocol, ...] = many(JoinGroupRequestProtocol, default=())
    reason: str | None = one("string", default=None, since=8, nullable_since=8, ignorable=True)


@protocol_message
class JoinGroupResponseMember:
    member_id: str = one("string", default="")
    group_instance_id: str | None = one(
        "string", default=None, since=5, nullable_since=5, ignorable=True
    )
    metadata: bytes = one("bytes", default=b"")


@protocol_message
class JoinGroupResponse:
    api: ClassVar = ApiKey.JOIN_GROUP

    throttle_time_ms: int = one("int32", default=0, since=2, ignorable=True)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    generation_id: int = one("int32", default=-1)
    protocol_type: str | None = one(
        "string", default=None, since=7, nullable_since=7, ignorable=True
    )
    protocol_name: str | None = one("string", default="", nullable_since=7)
    leader: str = one("string", default="")
    skip_assignment: bool = one("bool", default=False, since=9)
    member_id: str = one("string", default="")
    members: tuple[JoinGroupResponseMember, ...] = many(JoinGroupResponseMember, default=())
