"""Check classic requests without their group, and answer those of unknown groups.

Only a JoinGroup without a member id creates a group.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.runtime.coordinator_effects import Effect, Reply, RequestEvent
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest

_PROTOCOL_IN_SYNC_SINCE: Final = 5


def check_request(
    event: RequestEvent, request: ClassicRequest, limits: ClassicLimits
) -> list[Effect]:
    """Return the response to an invalid request; empty if it is valid (GR-3)."""
    if isinstance(request, SyncGroupRequest) and _lacks_protocol(event, request):
        return [responses.error_response(event, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
    if not request.group_id:
        return [responses.error_response(event, request, ErrorCode.INVALID_GROUP_ID)]
    if isinstance(request, JoinGroupRequest) and not (
        limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms
    ):
        return [responses.error_response(event, request, ErrorCode.INVALID_SESSION_TIMEOUT)]
    return []


def _lacks_protocol(event: RequestEvent, request: SyncGroupRequest) -> bool:
    """From version 5 on a SyncGroup must name its protocol (GR-10)."""
    protocol = (request.protocol_type, request.protocol_name)
    return event.version >= _PROTOCOL_IN_SYNC_SINCE and None in protocol


def creates_group(request: ClassicRequest) -> bool:
    return isinstance(request, JoinGroupRequest) and not request.member_id


def reject_without_group(event: RequestEvent, request: ClassicRequest) -> list[Effect]:
    """An unknown group has no members (GR-3)."""
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(request, LeaveGroupRequest):
        members = tuple(responses.left(identity, error) for identity in request.members)
        return [Reply(event.caller, LeaveGroupResponse(members=members))]
    return [responses.error_response(event, request, error)]
