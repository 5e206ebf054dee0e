"""How one member comes from what it has to what it shall have (NG-3).

Never by a jump: it first gives back what is to go to others, and only then moves on to the epoch
of the target; it gets what is free, and waits for what others have not given back yet.

    STABLE ──────────▶ UNREVOKED_PARTITIONS      there is something to give back
    UNREVOKED ───────▶ UNREVOKED | UNRELEASED | STABLE      it is given back
    UNRELEASED ──────▶ UNREVOKED | UNRELEASED | STABLE      look again, at each heartbeat

What a reader would get wrong: the word of the member counts, not the coordinator's. Partitions are
given back when a heartbeat lists what the member owns and they are not among it. A heartbeat that
lists nothing (None) says nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.coordinator.assignors.assignor_spec import Partitions, TopicIdPartition
from headwater.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """Where a member is to go. `is_free` says that no member holds a partition."""

    epoch: int
    target: Partitions
    is_free: Callable[[TopicIdPartition], bool]


def reconcile(
    member: ConsumerGroupMember, owned: Partitions | None, goal: TargetAssignment
) -> ConsumerGroupMember:
    """The member after its next step, or the same member if it cannot take one."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == goal.epoch:
                return member
            return _next(member, member.member_epoch, owned, goal)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(member.pending_revocation, owned):
                return member
            # It has left the epoch in which it had those, even if there is more to give back.
            return _next(member, member.member_epoch + 1, owned, goal)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.member_epoch, owned, goal)
        case MemberState.UNKNOWN:
            return _next(member, goal.epoch, owned, goal)


def _next(
    member: ConsumerGroupMember, epoch: int, owned: Partitions | None, goal: TargetAssignment
) -> ConsumerGroupMember:
    kept = member.assigned & goal.target
    to_revoke = member.assigned - goal.target
    if _still_owns(to_revoke, owned):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    wanted = goal.target - kept
    free = frozenset(filter(goal.is_free, wanted))
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    step = member.moved_to(goal.epoch, state, kept | free)
    return member if _is_same_place(member, step) else step


def _still_owns(partitions: Partitions, owned: Partitions | None) -> bool:
    """Until it has said otherwise, a member owns what it was given."""
    if not partitions:
        return False
    return owned is None or not partitions.isdisjoint(owned)


def _is_same_place(member: ConsumerGroupMember, step: ConsumerGroupMember) -> bool:
    """Whether the step only forgets the previous epoch, which is not worth a record."""
    return (
        member.member_epoch == step.member_epoch
        and member.state is step.state
        and member.assigned == step.assigned
        and member.pending_revocation == step.pending_revocation
    )
