"""What a classic group says: the responses of its four APIs, and its description.

An answer is made for the version in which it was asked, and only for that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember
from headwater.coordinator.runtime.coordinator_effects import Asked, Reply
from headwater.protocol.messages.describe_groups import DescribedGroupMember
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest

_NAMELESS_PROTOCOL_SINCE: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all members of a generation are told."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None


def error_response(asked: Asked, request: ClassicRequest, error: ErrorCode) -> Reply:
    """The same error to whatever was asked, as one for the request as a whole."""
    match request:
        case JoinGroupRequest():
            return join_error(asked, error, member_id=request.member_id)
        case SyncGroupRequest():
            return sync_error(asked, error)
        case HeartbeatRequest():
            return Reply(asked.caller, HeartbeatResponse(error_code=error))
        case LeaveGroupRequest():
            return Reply(asked.caller, LeaveGroupResponse(error_code=error))


def join_error(asked: Asked, error: ErrorCode, *, member_id: str) -> Reply:
    """There is no protocol to name, which versions before 7 cannot put otherwise than empty."""
    nameless = asked.version >= _NAMELESS_PROTOCOL_SINCE
    response = JoinGroupResponse(
        error_code=error, member_id=member_id, protocol_name=None if nameless else ""
    )
    return Reply(asked.caller, response)


def sync_error(asked: Asked, error: ErrorCode) -> Reply:
    return Reply(asked.caller, SyncGroupResponse(error_code=error))


def admit(
    asked: Asked,
    member_id: str,
    terms: Terms,
    *,
    members: Iterable[ClassicGroupMember] = (),
    skip_assignment: bool = False,
) -> Reply:
    """Tell a member of the generation; `members` is for the leader only (GR-6)."""
    response = JoinGroupResponse(
        generation_id=terms.generation,
        protocol_type=terms.protocol_type,
        protocol_name=terms.protocol,
        leader=terms.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(terms.protocol) or b"",
            )
            for member in members
        ),
    )
    return Reply(asked.caller, response)


def assign(asked: Asked, terms: Terms, assignment: bytes) -> Reply:
    response = SyncGroupResponse(
        protocol_type=terms.protocol_type, protocol_name=terms.protocol, assignment=assignment
    )
    return Reply(asked.caller, response)


def left(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=error,
    )


def described(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    """The protocol is None while the group has not settled on one; metadata is left out then."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) or b"",
        member_assignment=member.assignment,
    )
