"""What can be said to a classic request before its group is looked for, or when there is none.

Only a JoinGroup that brings no member id makes a group.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic import classic_responses as answers
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.runtime.coordinator_effects import Asked, Effect, Reply
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest

_PROTOCOL_IN_SYNC_SINCE: Final = 5


def check_request(asked: Asked, request: ClassicRequest, limits: ClassicLimits) -> list[Effect]:
    """The answer to a request that is wrong by itself; nothing if it is not (GR-3)."""
    if isinstance(request, SyncGroupRequest) and _is_silent_on_protocol(asked, request):
        return [answers.error_response(asked, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
    if not request.group_id:
        return [answers.error_response(asked, request, ErrorCode.INVALID_GROUP_ID)]
    if isinstance(request, JoinGroupRequest) and not (
        limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms
    ):
        return [answers.error_response(asked, request, ErrorCode.INVALID_SESSION_TIMEOUT)]
    return []


def _is_silent_on_protocol(asked: Asked, request: SyncGroupRequest) -> bool:
    """From version 5 on a sync has to say what it means (GR-10)."""
    said = (request.protocol_type, request.protocol_name)
    return asked.version >= _PROTOCOL_IN_SYNC_SINCE and None in said


def creates_group(request: ClassicRequest) -> bool:
    return isinstance(request, JoinGroupRequest) and not request.member_id


def reject_without_group(asked: Asked, request: ClassicRequest) -> list[Effect]:
    """Who speaks to a group that is not there is no member of it (GR-3)."""
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(request, LeaveGroupRequest):
        members = tuple(answers.left(identity, error) for identity in request.members)
        return [Reply(asked.caller, LeaveGroupResponse(members=members))]
    return [answers.error_response(asked, request, error)]
