"""NG-3, one step at a time."""

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


def test_a_member_that_has_arrived_stays() -> None:
    arrived = member(3, MemberState.STABLE, parts(0))
    assert reconcile(arrived, None, goal(3, parts(0))) is arrived


def test_free_partitions_are_given_at_once_with_the_target_epoch() -> None:
    before = member(3, MemberState.STABLE, parts(0))
    after = reconcile(before, None, goal(5, parts(0, 1)))
    assert after == member(5, MemberState.STABLE, parts(0, 1), previous=3)


def test_what_is_to_go_is_taken_back_first_and_the_epoch_stays() -> None:
    before = member(3, MemberState.STABLE, parts(0, 1))
    after = reconcile(before, None, goal(5, parts(1, 2)))
    assert after == member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0), previous=3)


def test_silence_about_what_it_owns_is_no_revocation() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0))
    assert reconcile(before, None, goal(5, parts(1, 2))) is before
    assert reconcile(before, parts(0, 1), goal(5, parts(1, 2))) is before


def test_once_given_back_the_member_goes_on() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0))
    after = reconcile(before, parts(1), goal(5, parts(1, 2)))
    assert after == member(5, MemberState.STABLE, parts(1, 2), previous=3)


def test_given_back_but_the_target_moved_on_means_one_epoch_and_more_to_give_back() -> None:
    before = member(3, MemberState.UNREVOKED_PARTITIONS, parts(1, 2), parts(0))
    after = reconcile(before, parts(1, 2), goal(7, parts(1)))
    assert after == member(4, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(2), previous=3)


def test_what_others_still_hold_is_waited_for() -> None:
    before = member(3, MemberState.STABLE, parts(0))
    after = reconcile(before, None, goal(5, parts(0, 1, 2), taken=parts(2)))
    assert after == member(5, MemberState.UNRELEASED_PARTITIONS, parts(0, 1), previous=3)
    assert reconcile(after, None, goal(5, parts(0, 1, 2), taken=parts(2))) is after
    released = reconcile(after, None, goal(5, parts(0, 1, 2)))
    assert released == member(5, MemberState.STABLE, parts(0, 1, 2), previous=5)


def test_a_waiting_member_may_have_to_give_back_in_turn() -> None:
    before = member(5, MemberState.UNRELEASED_PARTITIONS, parts(0, 1))
    after = reconcile(before, parts(0, 1), goal(6, parts(1)))
    assert after == member(5, MemberState.UNREVOKED_PARTITIONS, parts(1), parts(0), previous=5)


def test_what_a_member_no_longer_owns_need_not_be_asked_back() -> None:
    before = member(3, MemberState.STABLE, parts(0, 1))
    after = reconcile(before, parts(1), goal(5, parts(1)))
    assert after == member(5, MemberState.STABLE, parts(1), previous=3)
