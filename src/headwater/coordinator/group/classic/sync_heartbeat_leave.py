"""SyncGroup, Heartbeat, LeaveGroup and silence: what is heard of members between their joins.

A heartbeat is answered with an error while members are to join again, and still counts as a sign
of life (GR-8): who is slow to join is not dead.
"""

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic import classic_responses as answers
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_group_state import ClassicGroupState
from headwater.coordinator.group.classic.classic_rebalance import ClassicRebalance, sync_timer
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.runtime.coordinator_effects import (
    Asked,
    CancelTimer,
    Effect,
    Reply,
    SetTimer,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest


def sync(group: ClassicRebalance, asked: Asked, request: SyncGroupRequest) -> list[Effect]:
    error = _sync_refusal(group, request)
    if error:
        return [answers.sync_error(asked, error)]
    member = group.roster.members[request.member_id]
    member.owes_sync = False
    if group.state is ClassicGroupState.STABLE:
        effects: list[Effect] = []
        if not any(other.owes_sync for other in group.roster.all()):
            effects.append(CancelTimer(sync_timer(group.group_id)))
        return [*effects, answers.assign(asked, group.terms, member.assignment)]
    earlier, member.syncing = member.syncing, asked
    effects = []
    if earlier is not None:
        effects.append(answers.sync_error(earlier, ErrorCode.REBALANCE_IN_PROGRESS))
    if group.roster.leader == member.member_id:
        assignments = {given.member_id: given.assignment for given in request.assignments}
        effects += group.settle(assignments, asked.now_ms)
    return effects


def _sync_refusal(group: ClassicRebalance, request: SyncGroupRequest) -> ErrorCode:
    """Identity first, then generation, then protocol, then the state of the group (GR-10)."""
    if group.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.roster.refusal(request.member_id, request.group_instance_id)
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


def _differs(said: str | None, ours: str | None) -> bool:
    """Versions before 5 say nothing."""
    return said is not None and ours is not None and said != ours


def heartbeat(group: ClassicRebalance, asked: Asked, request: HeartbeatRequest) -> list[Effect]:
    error = group.roster.refusal(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        return [Reply(asked.caller, HeartbeatResponse(error_code=error))]
    effects = group.expect(group.roster.members[request.member_id], asked.now_ms)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    return [*effects, Reply(asked.caller, HeartbeatResponse(error_code=error))]


def leave(group: ClassicRebalance, asked: Asked, request: LeaveGroupRequest) -> list[Effect]:
    """Each member for itself, then one rebalance for all of them (GR-13)."""
    effects: list[Effect] = []
    responses = []
    for identity in request.members:
        error, removal = _leave_one(group, identity)
        effects += removal
        responses.append(answers.left(identity, error))
    if any(not response.error_code for response in responses) and (
        group.state is not ClassicGroupState.EMPTY
    ):
        effects += group.begin_or_complete(asked.now_ms)
    return [*effects, Reply(asked.caller, LeaveGroupResponse(members=tuple(responses)))]


def _leave_one(group: ClassicRebalance, identity: MemberIdentity) -> tuple[ErrorCode, list[Effect]]:
    roster = group.roster
    member_id = identity.member_id
    instance_id = identity.group_instance_id
    if member_id in roster.pending:
        roster.remove(member_id)
        return ErrorCode.NONE, [CancelTimer(session_timer(group.group_id, member_id))]
    if not member_id and instance_id is not None:
        # An operator removes whoever has the instance's place at present.
        member_id = roster.instances.get(instance_id, "")
    error = roster.refusal(member_id, instance_id)
    if error:
        return error, []
    return ErrorCode.NONE, group.remove(roster.members[member_id])


def expire_session(group: ClassicRebalance, member_id: str, now_ms: int) -> list[Effect]:
    """The session timer of a member, or of an id that was given out, has fired (GR-9)."""
    deadline_ms = group.roster.pending.get(member_id)
    if deadline_ms is not None:
        until_ms = waits_until(deadline_ms, now_ms, group.limits.max_session_timeout_ms)
        if until_ms is not None:
            group.roster.pending[member_id] = until_ms
            return [SetTimer(session_timer(group.group_id, member_id), until_ms)]
        group.roster.remove(member_id)
        return _go_on_without(group, now_ms)
    member = group.roster.get(member_id)
    if member is None:
        return []
    member.timer_ms = None
    if member.may_be_silent:
        # Its answer will start the next session.
        return []
    until_ms = waits_until(member.deadline_ms, now_ms, member.patience_ms)
    if until_ms is not None:
        member.deadline_ms = member.timer_ms = until_ms
        return [SetTimer(session_timer(group.group_id, member_id), until_ms)]
    effects = group.remove(member)
    if group.can_begin:
        return effects + group.begin(now_ms)
    return effects + _go_on_without(group, now_ms)


def _go_on_without(group: ClassicRebalance, now_ms: int) -> list[Effect]:
    """Also a first rebalance ends early when it has lost somebody. Kafka does this."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.roster.have_all_joined:
        return group.complete_join(now_ms)
    return []
