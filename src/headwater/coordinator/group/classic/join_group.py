"""JoinGroup, in every state and version of a classic group (GR-2, GR-3, GR-6, GR-7, GR-14).

A client that has no id yet is given one and sent away to come back with it, so that a client which
tries again and again does not fill the group with members that nobody plays. Versions before 4
cannot do that, and a static member need not, since its instance id tells it from others.
"""

from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Random
from headwater.coordinator.group.classic import classic_responses as answers
from headwater.coordinator.group.classic.classic_group_member import (
    ClassicGroupMember,
    fresh_member_id,
    joining_member,
    session_timer,
)
from headwater.coordinator.group.classic.classic_group_state import ClassicGroupState
from headwater.coordinator.group.classic.classic_rebalance import ClassicRebalance
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Asked,
    CancelTimer,
    Effect,
    SetTimer,
)
from headwater.protocol.messages.join_group import JoinGroupRequest

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


def join(
    group: ClassicRebalance, asked: Asked, request: JoinGroupRequest, rng: Random
) -> list[Effect]:
    member_id = request.member_id
    if not _has_room(group, member_id):
        return _turn_away(group, asked, request)
    if not _speaks_with_all(group, request):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return [answers.join_error(asked, error, member_id=member_id)]
    if not member_id:
        return _join_as_newcomer(group, asked, request, rng)
    if member_id in group.roster.pending:
        if request.group_instance_id is not None:
            # Only dynamic members are given an id beforehand; Kafka fails like this, too.
            return [answers.join_error(asked, ErrorCode.UNKNOWN_SERVER_ERROR, member_id="")]
        return _add(group, asked, request, member_id)
    return _rejoin(group, asked, request)


def _has_room(group: ClassicRebalance, member_id: str) -> bool:
    """Whether one more fits (`group.max.size`).

    While members join, only those that have are counted, so that of a group which is over its
    size the last ones stay outside. Kafka does this also to a static instance that comes back.
    """
    member = group.roster.get(member_id)
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            waits = member is not None and member.joining is not None
            return waits or group.roster.joining_count < group.limits.max_size
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return member is not None or len(group.roster) < group.limits.max_size
        case _:
            return True


def _turn_away(group: ClassicRebalance, asked: Asked, request: JoinGroupRequest) -> list[Effect]:
    member = group.roster.get(request.member_id)
    effects = [] if member is None else group.remove(member)
    group.roster.remove(request.member_id)
    error = ErrorCode.GROUP_MAX_SIZE_REACHED
    effects.append(answers.join_error(asked, error, member_id=""))
    # It may have been the last one that the others waited for.
    return effects + group.complete_join_if_due(asked.now_ms)


def _speaks_with_all(group: ClassicRebalance, request: JoinGroupRequest) -> bool:
    if group.state is ClassicGroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    names = [offered.name for offered in request.protocols]
    return request.protocol_type == group.protocol_type and group.roster.supports_any(names)


def _join_as_newcomer(
    group: ClassicRebalance, asked: Asked, request: JoinGroupRequest, rng: Random
) -> list[Effect]:
    instance_id = request.group_instance_id
    member_id = fresh_member_id(asked, instance_id, rng)
    if instance_id is not None:
        old_id = group.roster.instances.get(instance_id)
        if old_id is not None:
            return _replace(group, asked, request, old_id=old_id, new_id=member_id)
        return _add(group, asked, request, member_id)
    if asked.version < _MEMBER_ID_REQUIRED_SINCE:
        return _add(group, asked, request, member_id)
    deadline_ms = asked.now_ms + request.session_timeout_ms
    group.roster.pending[member_id] = deadline_ms
    return [
        SetTimer(session_timer(group.group_id, member_id), deadline_ms),
        answers.join_error(asked, ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id),
    ]


def _add(
    group: ClassicRebalance, asked: Asked, request: JoinGroupRequest, member_id: str
) -> list[Effect]:
    if group.opening is not None:
        group.opening.has_grown = True
    if not len(group.roster):
        group.protocol_type = request.protocol_type
    member = joining_member(member_id, asked, request)
    member.is_new = True
    group.roster.add(member)
    effects = group.wait_to_join(member, asked)
    effects += group.expect(member, asked.now_ms, group.limits.new_member_join_timeout_ms)
    return effects + group.begin_or_complete(asked.now_ms)


def _rejoin(group: ClassicRebalance, asked: Asked, request: JoinGroupRequest) -> list[Effect]:
    member_id = request.member_id
    error = group.roster.refusal(member_id, request.group_instance_id)
    if error:
        return [answers.join_error(asked, error, member_id=member_id)]
    member = group.roster.members[member_id]
    unchanged = member.protocols == request.protocols
    match group.state:
        case ClassicGroupState.COMPLETING_REBALANCE if unchanged:
            # It has not heard of the generation, or has forgotten it: tell it once more.
            return [group.admit(member, asked)]
        case ClassicGroupState.STABLE if unchanged and group.roster.leader != member_id:
            return [answers.admit(asked, member_id, group.terms)]
        case _:
            # A leader of a stable group has its reasons: there may be new partitions to share.
            member.take_terms(request)
            effects = group.wait_to_join(member, asked)
            return effects + group.begin_or_complete(asked.now_ms)


def _replace(
    group: ClassicRebalance, asked: Asked, request: JoinGroupRequest, *, old_id: str, new_id: str
) -> list[Effect]:
    """A static instance came back without its id, so the one that had it is fenced (GR-14)."""
    old = group.roster.members[old_id]
    leader_before = group.roster.leader
    effects = [*_fence(old), CancelTimer(session_timer(group.group_id, old_id))]
    member = _successor(old, new_id, request)
    group.roster.replace(old_id, member)
    effects += group.expect(member, asked.now_ms)
    if group.state is ClassicGroupState.STABLE and group.roster.choose_protocol() == group.protocol:
        return effects + _hand_over(group, asked, member, leader_before)
    # While assignments are made the leader has the old id in its list, and none for the new.
    effects += group.wait_to_join(member, asked)
    return effects + group.begin_or_complete(asked.now_ms)


def _fence(old: ClassicGroupMember) -> list[Effect]:
    error = ErrorCode.FENCED_INSTANCE_ID
    effects: list[Effect] = []
    if old.joining is not None:
        effects.append(answers.join_error(old.joining, error, member_id=old.member_id))
    if old.syncing is not None:
        effects.append(answers.sync_error(old.syncing, error))
    return effects


def _successor(
    old: ClassicGroupMember, new_id: str, request: JoinGroupRequest
) -> ClassicGroupMember:
    """Kafka keeps the client's name and host of the first that had the place."""
    member = ClassicGroupMember(
        member_id=new_id,
        group_instance_id=old.group_instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        protocols=old.protocols,
        assignment=old.assignment,
        owes_sync=old.owes_sync,
    )
    member.take_terms(request)
    return member


def _hand_over(
    group: ClassicRebalance, asked: Asked, member: ClassicGroupMember, leader_before: str | None
) -> list[Effect]:
    """The place is taken over with all that was assigned to it, and nobody else notices.

    A leader must not assign anew, since the others would not ask for it. From version 9 on it can
    be told so; before that it is told that another leads, namely who it was itself (KIP-814).
    """
    assignments = {other.member_id: other.assignment for other in group.roster.all()}
    append = Append((group.record(assignments),))
    terms = group.terms
    if asked.version < _SKIP_ASSIGNMENT_SINCE:
        told = answers.Terms(
            generation=terms.generation,
            protocol_type=terms.protocol_type,
            protocol=terms.protocol,
            leader=leader_before,
        )
        return [append, answers.admit(asked, member.member_id, told)]
    leads = group.roster.leader == member.member_id
    members = group.roster.all() if leads else ()
    reply = answers.admit(asked, member.member_id, terms, members=members, skip_assignment=leads)
    return [append, reply]
