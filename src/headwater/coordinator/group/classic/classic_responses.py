"""Responses of classic groups, and their descriptions.

A response is built for the version of its request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember
from headwater.coordinator.runtime.coordinator_effects import Reply, RequestEvent
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
class GenerationTerms:
    """What all members of a generation are sent."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None


def error_response(event: RequestEvent, request: ClassicRequest, error: ErrorCode) -> Reply:
    """Return a response to any classic request with one error for the whole request."""
    match request:
        case JoinGroupRequest():
            return join_error(event, error, member_id=request.member_id)
        case SyncGroupRequest():
            return sync_error(event, error)
        case HeartbeatRequest():
            return Reply(event.caller, HeartbeatResponse(error_code=error))
        case LeaveGroupRequest():
            return Reply(event.caller, LeaveGroupResponse(error_code=error))


def join_error(event: RequestEvent, error: ErrorCode, *, member_id: str) -> Reply:
    """Without a protocol: null, or empty before version 7."""
    nameless = event.version >= _NAMELESS_PROTOCOL_SINCE
    response = JoinGroupResponse(
        error_code=error, member_id=member_id, protocol_name=None if nameless else ""
    )
    return Reply(event.caller, response)


def sync_error(event: RequestEvent, error: ErrorCode) -> Reply:
    return Reply(event.caller, SyncGroupResponse(error_code=error))


def admit(
    event: RequestEvent,
    member_id: str,
    terms: GenerationTerms,
    *,
    members: Iterable[ClassicGroupMember] = (),
    skip_assignment: bool = False,
) -> Reply:
    """Send a member the generation; `members` is for the leader only (GR-6)."""
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
    return Reply(event.caller, response)


def assign(event: RequestEvent, terms: GenerationTerms, assignment: bytes) -> Reply:
    response = SyncGroupResponse(
        protocol_type=terms.protocol_type, protocol_name=terms.protocol, assignment=assignment
    )
    return Reply(event.caller, response)


def left(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=error,
    )


def described(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    """Describe the group; without a chosen `protocol` metadata is left out."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) or b"",
        member_assignment=member.assignment,
    )
