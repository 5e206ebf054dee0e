"""ISR changes on the leader: ISR-1, ISR-3, ISR-4 and ISR-5."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.replication.follower_replica import FollowerReplica
from headwater.replication.isr_state import (
    CommittedIsr,
    IsrProposal,
    IsrState,
    ProposalOutcome,
    has_reached_isr,
    out_of_sync_replicas,
)

ONE, TWO, THREE, FOUR = NodeId(1), NodeId(2), NodeId(3), NodeId(4)


def in_sync(*isr: NodeId) -> IsrState:
    return IsrState(
        PartitionRegistration(
            replicas=(ONE, TWO, THREE), isr=isr, leader=ONE, leader_epoch=4, partition_epoch=9
        )
    )


def joining(state: IsrState, node_id: NodeId) -> IsrProposal:
    proposal = state.propose_expand(node_id)
    assert proposal is not None
    return proposal


def granted(*isr: NodeId, leader_epoch: int = 4, partition_epoch: int = 10) -> CommittedIsr:
    return CommittedIsr(
        leader=ONE, leader_epoch=leader_epoch, isr=isr, partition_epoch=partition_epoch
    )


def test_a_pending_addition_counts_at_once_and_a_pending_removal_still_counts() -> None:
    state = in_sync(ONE, TWO)
    assert joining(state, THREE) == IsrProposal(
        isr=(ONE, TWO, THREE), leader_epoch=4, partition_epoch=9
    )
    assert (state.committed, state.maximal) == ((ONE, TWO), (ONE, TWO, THREE))
    other = in_sync(ONE, TWO)
    assert other.propose_shrink((TWO,)) is not None
    assert (other.committed, other.maximal) == ((ONE, TWO), (ONE, TWO))


def test_there_is_one_pending_change_at_a_time() -> None:
    state = in_sync(ONE, TWO)
    joining(state, THREE)
    assert state.propose_shrink((TWO,)) is None
    assert state.propose_expand(THREE) is None


def test_a_change_without_effect_is_not_proposed() -> None:
    state = in_sync(ONE, TWO)
    assert state.propose_expand(TWO) is None
    assert state.propose_shrink((THREE,)) is None


def test_the_committed_isr_is_that_of_the_response_and_not_the_proposed_one() -> None:
    state = in_sync(ONE)
    proposal = joining(state, THREE)
    assert state.handle_response(proposal, granted(ONE, TWO, THREE)) is ProposalOutcome.ACCEPTED
    assert state.committed == state.maximal == (ONE, TWO, THREE)
    assert (state.partition_epoch, state.pending) == (10, None)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_an_ineligible_replica_withdraws_the_proposal(code: ErrorCode) -> None:
    state = in_sync(ONE, TWO)
    assert state.handle_response(joining(state, THREE), code) is ProposalOutcome.WITHDRAWN
    assert (state.maximal, state.pending) == ((ONE, TWO), None)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_a_leader_behind_the_controller_waits_for_metadata(code: ErrorCode) -> None:
    """The maximal ISR stays, since the change may have been committed."""
    state = in_sync(ONE, TWO)
    assert state.handle_response(joining(state, THREE), code) is ProposalOutcome.WAIT
    assert (state.maximal, state.pending is not None) == ((ONE, TWO, THREE), True)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT],
)
def test_other_errors_are_retried(code: ErrorCode) -> None:
    state = in_sync(ONE, TWO)
    proposal = joining(state, THREE)
    assert state.handle_response(proposal, code) is ProposalOutcome.RETRY
    assert state.pending is proposal


def test_newer_metadata_replaces_the_pending_proposal() -> None:
    state = in_sync(ONE, TWO)
    proposal = joining(state, THREE)
    state.update((ONE,), 9)
    assert state.pending is proposal, "nothing new"
    state.update((ONE,), 10)
    assert state.committed == state.maximal == (ONE,)
    assert state.handle_response(proposal, granted(ONE, TWO, THREE)) is ProposalOutcome.STALE
    assert state.committed == (ONE,)


def test_a_response_of_another_leader_epoch_is_ignored() -> None:
    state = in_sync(ONE, TWO)
    proposal = joining(state, THREE)
    assert state.handle_response(proposal, granted(TWO, leader_epoch=5)) is ProposalOutcome.WAIT
    assert state.committed == (ONE, TWO)


def follower(end_offset: int, *, caught_up_ms: int) -> FollowerReplica:
    replica = FollowerReplica(is_in_sync=True, now_ms=caught_up_ms)
    replica.end_offset = end_offset
    return replica


def test_members_that_lag_or_are_not_replicas_any_more_must_leave_the_isr() -> None:
    followers = {TWO: follower(5, caught_up_ms=0), THREE: follower(10, caught_up_ms=0)}
    for now_ms, expected in ((1_000, (FOUR,)), (1_001, (TWO, FOUR))):
        assert (
            out_of_sync_replicas(
                (ONE, TWO, THREE, FOUR),
                followers,
                leader=ONE,
                leader_end_offset=10,
                now_ms=now_ms,
                lag_max_ms=1_000,
            )
            == expected
        )


@pytest.mark.parametrize(("high_watermark", "epoch_start", "joins"), [(7, 8, 8), (9, 8, 9)])
def test_a_follower_may_join_at_the_high_watermark_and_the_start_of_the_leader_epoch(
    high_watermark: int, epoch_start: int, joins: int
) -> None:
    may_join = [
        has_reached_isr(
            follower(end_offset, caught_up_ms=0),
            high_watermark=high_watermark,
            epoch_start_offset=epoch_start,
        )
        for end_offset in (joins - 1, joins)
    ]
    assert may_join == [False, True]
