"""Reconcile a member's current assignment with its target (NG-3).

A member first revokes partitions that go to others, and only then advances to the epoch of the
target; it gets free partitions, and waits for the ones that others have not released yet.

    STABLE ──────────▶ UNREVOKED_PARTITIONS      there are partitions to revoke
    UNREVOKED ───────▶ UNREVOKED | UNRELEASED | STABLE      they are revoked
    UNRELEASED ──────▶ UNREVOKED | UNRELEASED | STABLE      checked at each heartbeat

Note: only the member's own report counts. Partitions are revoked when a heartbeat lists the owned
partitions and they are not among these. A heartbeat without a list (None) reports nothing.
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
    """A member's target. `is_free` returns whether no member holds a partition."""

    epoch: int
    target: Partitions
    is_free: Callable[[TopicIdPartition], bool]


def reconcile(
    member: ConsumerGroupMember, owned: Partitions | None, target_assignment: TargetAssignment
) -> ConsumerGroupMember:
    """Return the member after its next step, or the same member if there is none."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target_assignment.epoch:
                return member
            return _next(member, member.member_epoch, owned, target_assignment)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(member.pending_revocation, owned):
                return member
            # It leaves the epoch in which it had these, even if there is more to revoke.
            return _next(member, member.member_epoch + 1, owned, target_assignment)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.member_epoch, owned, target_assignment)
        case MemberState.UNKNOWN:
            return _next(member, target_assignment.epoch, owned, target_assignment)


def _next(
    member: ConsumerGroupMember,
    epoch: int,
    owned: Partitions | None,
    target_assignment: TargetAssignment,
) -> ConsumerGroupMember:
    kept = member.assigned & target_assignment.target
    to_revoke = member.assigned - target_assignment.target
    if _still_owns(to_revoke, owned):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    wanted = target_assignment.target - kept
    free = frozenset(filter(target_assignment.is_free, wanted))
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    step = member.moved_to(target_assignment.epoch, state, kept | free)
    return member if _is_unchanged(member, step) else step


def _still_owns(partitions: Partitions, owned: Partitions | None) -> bool:
    """Until it reports otherwise, a member owns what it was assigned."""
    if not partitions:
        return False
    return owned is None or not partitions.isdisjoint(owned)


def _is_unchanged(member: ConsumerGroupMember, step: ConsumerGroupMember) -> bool:
    """Return whether the step only changes the previous epoch, which needs no record."""
    return (
        member.member_epoch == step.member_epoch
        and member.state is step.state
        and member.assigned == step.assigned
        and member.pending_revocation == step.pending_revocation
    )
