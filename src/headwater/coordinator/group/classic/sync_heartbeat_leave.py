"""Decide SyncGroup, Heartbeat, LeaveGroup and session timeouts of classic groups.

A heartbeat during a rebalance gets REBALANCE_IN_PROGRESS and still extends the session (GR-8).
"""

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_group_state import ClassicGroupState
from headwater.coordinator.group.classic.classic_rebalance import ClassicRebalance, sync_timer
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.runtime.coordinator_effects import (
    CancelTimer,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest


def sync(group: ClassicRebalance, event: RequestEvent, request: SyncGroupRequest) -> list[Effect]:
    error = _check_sync(group, request)
    if error:
        return [responses.sync_error(event, error)]
    member = group.members.members[request.member_id]
    member.awaits_sync = False
    if group.state is ClassicGroupState.STABLE:
        effects: list[Effect] = []
        if not any(other.awaits_sync for other in group.members.all()):
            effects.append(CancelTimer(sync_timer(group.group_id)))
        return [*effects, responses.assign(event, group.terms, member.assignment)]
    earlier, member.syncing = member.syncing, event
    effects = []
    if earlier is not None:
        effects.append(responses.sync_error(earlier, ErrorCode.REBALANCE_IN_PROGRESS))
    if group.members.leader == member.member_id:
        assignments = {given.member_id: given.assignment for given in request.assignments}
        effects += group.complete_sync(assignments, event.now_ms)
    return effects


def _check_sync(group: ClassicRebalance, request: SyncGroupRequest) -> ErrorCode:
    """Check member, generation, protocol and group state, in this order (GR-10)."""
    if group.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.members.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(requested: str | None, current: str | None) -> bool:
    """Versions before 5 have no protocol."""
    return requested is not None and current is not None and requested != current


def heartbeat(
    group: ClassicRebalance, event: RequestEvent, request: HeartbeatRequest
) -> list[Effect]:
    error = group.members.check_member(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        return [Reply(event.caller, HeartbeatResponse(error_code=error))]
    effects = group.expect(group.members.members[request.member_id], event.now_ms)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    return [*effects, Reply(event.caller, HeartbeatResponse(error_code=error))]


def leave(group: ClassicRebalance, event: RequestEvent, request: LeaveGroupRequest) -> list[Effect]:
    """Remove each member on its own, then start one rebalance for all (GR-13)."""
    effects: list[Effect] = []
    results = []
    for identity in request.members:
        error, removal_effects = _leave_one(group, identity)
        effects += removal_effects
        results.append(responses.left(identity, error))
    if any(not result.error_code for result in results) and (
        group.state is not ClassicGroupState.EMPTY
    ):
        effects += group.begin_or_complete(event.now_ms)
    return [*effects, Reply(event.caller, LeaveGroupResponse(members=tuple(results)))]


def _leave_one(group: ClassicRebalance, identity: MemberIdentity) -> tuple[ErrorCode, list[Effect]]:
    roster = group.members
    member_id = identity.member_id
    instance_id = identity.group_instance_id
    if member_id in roster.pending:
        roster.remove(member_id)
        return ErrorCode.NONE, [CancelTimer(session_timer(group.group_id, member_id))]
    if not member_id and instance_id is not None:
        # An operator removes the current member of a static instance.
        member_id = roster.instances.get(instance_id, "")
    error = roster.check_member(member_id, instance_id)
    if error:
        return error, []
    return ErrorCode.NONE, group.remove(roster.members[member_id])


def expire_session(group: ClassicRebalance, member_id: str, now_ms: int) -> list[Effect]:
    """The session timer of a member or of a pending id fired (GR-9)."""
    deadline_ms = group.members.pending.get(member_id)
    if deadline_ms is not None:
        until_ms = waits_until(deadline_ms, now_ms, group.limits.max_session_timeout_ms)
        if until_ms is not None:
            group.members.pending[member_id] = until_ms
            return [SetTimer(session_timer(group.group_id, member_id), until_ms)]
        group.members.remove(member_id)
        return _complete_join_if_due(group, now_ms)
    member = group.members.get(member_id)
    if member is None:
        return []
    member.timer_ms = None
    if member.may_be_silent:
        # The response will start the next session.
        return []
    until_ms = waits_until(member.deadline_ms, now_ms, member.timeout_ms)
    if until_ms is not None:
        member.deadline_ms = member.timer_ms = until_ms
        return [SetTimer(session_timer(group.group_id, member_id), until_ms)]
    effects = group.remove(member)
    if group.can_begin:
        return effects + group.begin(now_ms)
    return effects + _complete_join_if_due(group, now_ms)


def _complete_join_if_due(group: ClassicRebalance, now_ms: int) -> list[Effect]:
    """Complete the join phase; like Kafka, also a first one that lost a member."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.members.have_all_joined:
        return group.complete_join(now_ms)
    return []
