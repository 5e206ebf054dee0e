"""Decide JoinGroup in every state and version of a classic group.

Rules GR-2, GR-3, GR-6, GR-7, GR-14. A client without a member id gets one and has to join again
with it, so that retries do not fill the group with dead members. Versions before 4 do not support
that, and a static member does not need it, since its instance id identifies it.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Random
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_group_member import (
    ClassicGroupMember,
    joining_member,
    new_member_id,
    session_timer,
)
from headwater.coordinator.group.classic.classic_group_state import ClassicGroupState
from headwater.coordinator.group.classic.classic_rebalance import ClassicRebalance
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    CancelTimer,
    Effect,
    RequestEvent,
    SetTimer,
)
from headwater.protocol.messages.join_group import JoinGroupRequest

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


def join(
    group: ClassicRebalance, event: RequestEvent, request: JoinGroupRequest, rng: Random
) -> list[Effect]:
    member_id = request.member_id
    if not _has_room(group, member_id):
        return _reject_full(group, event, request)
    if not _has_common_protocol(group, request):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return [responses.join_error(event, error, member_id=member_id)]
    if not member_id:
        return _join_as_new_member(group, event, request, rng)
    if member_id in group.members.pending:
        if request.group_instance_id is not None:
            # Only dynamic members get an id beforehand; Kafka fails the same way.
            return [responses.join_error(event, ErrorCode.UNKNOWN_SERVER_ERROR, member_id="")]
        return _add(group, event, request, member_id)
    return _rejoin(group, event, request)


def _has_room(group: ClassicRebalance, member_id: str) -> bool:
    """Return whether one more member fits (`group.max.size`).

    During the join phase only members that have joined are counted, so that of a group above its
    limit the last ones are rejected. Kafka does this even to a static member that rejoins.
    """
    member = group.members.get(member_id)
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            waits = member is not None and member.joining is not None
            return waits or group.members.joining_count < group.limits.max_size
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return member is not None or len(group.members) < group.limits.max_size
        case _:
            return True


def _reject_full(
    group: ClassicRebalance, event: RequestEvent, request: JoinGroupRequest
) -> list[Effect]:
    member = group.members.get(request.member_id)
    effects = [] if member is None else group.remove(member)
    group.members.remove(request.member_id)
    error = ErrorCode.GROUP_MAX_SIZE_REACHED
    effects.append(responses.join_error(event, error, member_id=""))
    # It may have been the last one to wait for.
    return effects + group.complete_join_if_due(event.now_ms)


def _has_common_protocol(group: ClassicRebalance, request: JoinGroupRequest) -> bool:
    if group.state is ClassicGroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    names = [offered.name for offered in request.protocols]
    return request.protocol_type == group.protocol_type and group.members.supports_any(names)


def _join_as_new_member(
    group: ClassicRebalance, event: RequestEvent, request: JoinGroupRequest, rng: Random
) -> list[Effect]:
    instance_id = request.group_instance_id
    member_id = new_member_id(event, instance_id, rng)
    if instance_id is not None:
        old_id = group.members.instances.get(instance_id)
        if old_id is not None:
            return _replace(group, event, request, old_id=old_id, new_id=member_id)
        return _add(group, event, request, member_id)
    if event.version < _MEMBER_ID_REQUIRED_SINCE:
        return _add(group, event, request, member_id)
    deadline_ms = event.now_ms + request.session_timeout_ms
    group.members.pending[member_id] = deadline_ms
    return [
        SetTimer(session_timer(group.group_id, member_id), deadline_ms),
        responses.join_error(event, ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id),
    ]


def _add(
    group: ClassicRebalance, event: RequestEvent, request: JoinGroupRequest, member_id: str
) -> list[Effect]:
    if group.initial_delay is not None:
        group.initial_delay.has_grown = True
    if not len(group.members):
        group.protocol_type = request.protocol_type
    member = joining_member(member_id, event, request)
    member.is_new = True
    group.members.add(member)
    effects = group.wait_to_join(member, event)
    effects += group.expect(member, event.now_ms, group.limits.new_member_join_timeout_ms)
    return effects + group.begin_or_complete(event.now_ms)


def _rejoin(
    group: ClassicRebalance, event: RequestEvent, request: JoinGroupRequest
) -> list[Effect]:
    member_id = request.member_id
    error = group.members.check_member(member_id, request.group_instance_id)
    if error:
        return [responses.join_error(event, error, member_id=member_id)]
    member = group.members.members[member_id]
    unchanged = member.protocols == request.protocols
    match group.state:
        case ClassicGroupState.COMPLETING_REBALANCE if unchanged:
            # It has not received the generation, or lost it: send it again.
            return [group.admit(member, event)]
        case ClassicGroupState.STABLE if unchanged and group.members.leader != member_id:
            return [responses.admit(event, member_id, group.terms)]
        case _:
            # A leader of a stable group may have seen new partitions.
            member.update(request)
            effects = group.wait_to_join(member, event)
            return effects + group.begin_or_complete(event.now_ms)


def _replace(
    group: ClassicRebalance,
    event: RequestEvent,
    request: JoinGroupRequest,
    *,
    old_id: str,
    new_id: str,
) -> list[Effect]:
    """Replace and fence a static member that rejoined without its member id (GR-14)."""
    old = group.members.members[old_id]
    leader_before = group.members.leader
    effects = [*_fence(old), CancelTimer(session_timer(group.group_id, old_id))]
    member = _successor(old, new_id, request)
    group.members.replace(old_id, member)
    effects += group.expect(member, event.now_ms)
    if (
        group.state is ClassicGroupState.STABLE
        and group.members.choose_protocol() == group.protocol
    ):
        return effects + _hand_over(group, event, member, leader_before)
    # During the sync phase the leader's list has the old id and no assignment for the new one.
    effects += group.wait_to_join(member, event)
    return effects + group.begin_or_complete(event.now_ms)


def _fence(old: ClassicGroupMember) -> list[Effect]:
    error = ErrorCode.FENCED_INSTANCE_ID
    effects: list[Effect] = []
    if old.joining is not None:
        effects.append(responses.join_error(old.joining, error, member_id=old.member_id))
    if old.syncing is not None:
        effects.append(responses.sync_error(old.syncing, error))
    return effects


def _successor(
    old: ClassicGroupMember, new_id: str, request: JoinGroupRequest
) -> ClassicGroupMember:
    """Like Kafka, keep client id and host of the first member with this instance id."""
    member = ClassicGroupMember(
        member_id=new_id,
        group_instance_id=old.group_instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        protocols=old.protocols,
        assignment=old.assignment,
        awaits_sync=old.awaits_sync,
    )
    member.update(request)
    return member


def _hand_over(
    group: ClassicRebalance,
    event: RequestEvent,
    member: ClassicGroupMember,
    leader_before: str | None,
) -> list[Effect]:
    """Keep generation and assignments; other members do not notice.

    The leader must not send new assignments, since the others would not fetch them. From version 9
    on the response says so; before, it names the old id as leader (KIP-814).
    """
    assignments = {other.member_id: other.assignment for other in group.members.all()}
    append = Append((group.record(assignments),))
    terms = group.terms
    if event.version < _SKIP_ASSIGNMENT_SINCE:
        terms_before = responses.GenerationTerms(
            generation=terms.generation,
            protocol_type=terms.protocol_type,
            protocol=terms.protocol,
            leader=leader_before,
        )
        return [append, responses.admit(event, member.member_id, terms_before)]
    is_leader = group.members.leader == member.member_id
    members = group.members.all() if is_leader else ()
    reply = responses.admit(
        event, member.member_id, terms, members=members, skip_assignment=is_leader
    )
    return [append, reply]
