"""Reconciliation, one step at a time (NG-3)."""

from headwater.common.ids import TopicId
from headwater.coordinator.assignors.assignor_spec import Partitions, TopicIdPartition
from headwater.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from headwater.coordinator.group.consumer.current_assignment_builder import (
    TargetAssignment,
    reconcile,
)

TOPIC = TopicId(b"t" * 16)


def parts(*numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(TOPIC, number) for number in numbers)


def goal(epoch: int, target: Partitions, taken: Partitions = frozenset()) -> TargetAssignment:
    return TargetAssignment(epoch=epoch, target=target, is_free=lambda each: each not in taken)


def member(
    epoch: int,
    state: MemberState,
    assigned: Partitions,
    pending: Partitions = frozenset(),
    previous: int = 0,
) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )


def test_a_reconciled_member_stays() -> None:
    arrived = member(3, MemberState.STABLE, parts(0))
    assert reconcile(arrived, None, goal(3, parts(0))) is arrived


def test_free_partitions_are_assigned_at_once_with_the_target_epoch() -> None:
    before = member(3, MemberState.STABLE, parts(0))
    after = reconcile(before, None, goal(5, parts(0, 1)))
    assert after == member(5, MemberState.STABLE, parts(0, 1), previous=3)


def test_partitions_are_revoked_first_and_the_epoch_stays() -> None:
    before = member(3, MemberState.STABLE, parts(0, 1))
    after = reconcile(before, None, goal(5, parts(1, 2)))
    assert after == member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0), previous=3)


def test_a_heartbeat_without_owned_partitions_revokes_nothing() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0))
    assert reconcile(before, None, goal(5, parts(1, 2))) is before
    assert reconcile(before, parts(0, 1), goal(5, parts(1, 2))) is before


def test_after_revocation_the_member_advances() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0))
    after = reconcile(before, parts(1), goal(5, parts(1, 2)))
    assert after == member(5, MemberState.STABLE, parts(1, 2), previous=3)


def test_a_revocation_for_a_newer_target_advances_one_epoch_and_revokes_more() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1, 2), parts(0))
    after = reconcile(before, parts(1, 2), goal(7, parts(1)))
    assert after == member(4, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(2), previous=3)


def test_partitions_of_others_are_waited_for() -> None:
    before = member(3, MemberState.STABLE, parts(0))
    after = reconcile(before, None, goal(5, parts(0, 1, 2), taken=parts(2)))
    assert after == member(5, MemberState.UNRELEASED_PARTITIONS, parts(0, 1), previous=3)
    assert reconcile(after, None, goal(5, parts(0, 1, 2), taken=parts(2))) is after
    released = reconcile(after, None, goal(5, parts(0, 1, 2)))
    assert released == member(5, MemberState.STABLE, parts(0, 1, 2), previous=5)


def test_a_waiting_member_may_have_to_revoke_in_turn() -> None:
    before = member(5, MemberState.UNRELEASED_PARTITIONS, parts(0, 1))
    after = reconcile(before, parts(0, 1), goal(6, parts(1)))
    assert after == member(5, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0), previous=5)


def test_partitions_that_a_member_does_not_own_need_no_revocation() -> None:
    before = member(3, MemberState.STABLE, parts(0, 1))
    after = reconcile(before, parts(1), goal(5, parts(1)))
    assert after == member(5, MemberState.STABLE, parts(1), previous=3)
