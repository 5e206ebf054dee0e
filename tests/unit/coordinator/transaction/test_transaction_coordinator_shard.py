"""Markers, timeouts, expiry and restarts of the transaction coordinator."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    MarkerOutcome,
    MarkersAnswered,
    SendMarkers,
    SetTimer,
    TimerFired,
)
from headwater.coordinator.transaction.transaction_metadata import tombstone_of
from headwater.coordinator.transaction.transaction_states import TRANSITIONS, TransactionState
from headwater.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from tests.simulation.labs.transaction_lab import (
    A0,
    A1,
    B0,
    COORDINATOR_EPOCH,
    SETTINGS,
    TIMEOUT_MS,
    TX,
    TransactionLab,
    adding,
    end,
    init,
)

WRITTEN, GONE = MarkerOutcome.WRITTEN, MarkerOutcome.PARTITION_DELETED
FAILED, FENCED = MarkerOutcome.FAILED, MarkerOutcome.FENCED
HOUR_MS = 3_600_000
EXPIRY = SetTimer(("expiry",), 1_000 + HOUR_MS)


def sending(send_id: int, *partitions: TopicPartition, epoch: int = 1) -> SendMarkers:
    return SendMarkers(
        transactional_id=TX,
        send_id=send_id,
        producer_id=ProducerId(9),
        producer_epoch=epoch,
        coordinator_epoch=COORDINATOR_EPOCH,
        client_version=2,
        is_commit=True,
        partitions=partitions,
    )


def committed(*partitions: TopicPartition) -> tuple[TransactionLab, list[Effect]]:
    lab = TransactionLab().begun(*partitions)
    return lab, lab.ask(end(9, 0, committed=True))


def test_a_prepared_transaction_can_only_complete() -> None:
    """TX-1."""
    states = TransactionState
    assert TRANSITIONS[states.PREPARE_COMMIT] == (states.COMPLETE_COMMIT,)
    assert TRANSITIONS[states.PREPARE_ABORT] == (states.COMPLETE_ABORT,)
    lab, _ = committed(A0)
    with pytest.raises(AssertionError, match="PrepareCommit to PrepareAbort"):
        lab.state.fenced(server_version=2, now_ms=1_000)


def test_failed_markers_are_sent_again_and_only_these() -> None:
    """TX-6."""
    lab, effects = committed(A0, A1, B0)
    assert lab.markers(effects, WRITTEN, FAILED, WRITTEN) == [SetTimer(("markers", TX), 1_100)]
    again = lab.fire("markers", TX)
    assert again == [sending(2, A1)]
    # In flight, so that the timer has nothing to do.
    assert lab.fire("markers", TX) == []
    assert lab.markers(again)[1:] == [Append((lab.state.record(),))]
    assert lab.label == "CompleteCommit"


def test_markers_are_retried_forever_at_growing_intervals() -> None:
    """TX-6."""
    lab, effects = committed(A0)
    waits = []
    for _ in range(9):
        (timer,) = lab.markers(effects, FAILED)
        assert isinstance(timer, SetTimer)
        waits.append(timer.deadline_ms - lab.now_ms)
        lab.now_ms = timer.deadline_ms
        effects = lab.fire("markers", TX)
    assert waits == [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]
    lab.markers(effects)
    assert lab.label == "CompleteCommit"


def test_outcomes_may_arrive_in_parts_and_only_the_last_completes() -> None:
    """TX-6."""
    lab, _ = committed(A0, A1)
    parts = [
        MarkersAnswered(transactional_id=TX, send_id=1, outcomes=((tp, WRITTEN),), now_ms=1_000)
        for tp in (A1, A0)
    ]
    assert lab.handle(parts[0]) == []
    assert lab.handle(parts[0]) == []
    assert len(lab.handle(parts[1])) == 2


def test_a_late_outcome_of_an_earlier_sending_completes_nothing() -> None:
    """TX-6."""
    lab, effects = committed(A0)
    lab.markers(effects, FAILED)
    again = lab.fire("markers", TX)
    assert lab.markers(effects, WRITTEN) == []
    assert lab.label == "PrepareCommit"
    lab.markers(again)
    assert lab.label == "CompleteCommit"
    assert lab.markers(again) == []


def test_a_deleted_partition_needs_no_marker() -> None:
    """TX-6."""
    lab, effects = committed(A0, B0)
    lab.markers(effects, GONE, WRITTEN)
    assert lab.label == "CompleteCommit"


def test_a_fenced_coordinator_gives_up_and_writes_nothing_more() -> None:
    """TX-6. The coordinator that fenced it completes the transaction."""
    lab, effects = committed(A0, A1)
    assert lab.markers(effects, FENCED, FAILED) == []
    assert lab.fire("markers", TX) == []
    assert lab.label == "PrepareCommit"


def test_a_completion_that_cannot_be_written_is_retried() -> None:
    """TX-6."""
    lab, effects = committed(A0)
    (sent,) = (effect for effect in effects if isinstance(effect, SendMarkers))
    answer = MarkersAnswered(
        transactional_id=TX, send_id=sent.send_id, outcomes=((A0, WRITTEN),), now_ms=1_000
    )
    assert lab.handle(answer, appends_fail=True)[0] == SetTimer(("markers", TX), 1_100)
    assert lab.label == "PrepareCommit"
    lab.fire("markers", TX)
    assert lab.label == "CompleteCommit"
    assert lab.fire("markers", TX) == []


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_prepared_transaction_continues_after_a_restart(is_commit: bool) -> None:
    """TX-6. All markers are sent again, since it is unknown which were written."""
    lab = TransactionLab().begun(A0, A1)
    lab.ask(end(9, 0, committed=is_commit))
    effects = lab.reload()
    assert effects == [EXPIRY, replace(sending(1, A0, A1), is_commit=is_commit)]
    lab.markers(effects)
    assert lab.state.state.is_complete


def test_an_empty_abort_split_by_a_crash_completes_after_a_restart() -> None:
    """TX-14."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    lab.ask(end(9, 0, committed=False))
    lab.records.pop()
    assert lab.reload()[0] == EXPIRY
    assert lab.label == "CompleteAbort"


def test_an_ongoing_transaction_is_watched_again_after_a_restart() -> None:
    """TX-9. Its timeout counts from its start."""
    lab = TransactionLab().begun(A0)
    lab.now_ms = 30_000
    assert lab.reload() == [
        SetTimer(("expiry",), 30_000 + HOUR_MS),
        SetTimer(("overdue", TX), 1_000 + TIMEOUT_MS),
    ]
    assert (lab.state.state, lab.state.partitions) == (TransactionState.ONGOING, (A0,))


def test_setting_the_clock_back_does_not_keep_an_overdue_transaction_open() -> None:
    """TX-9. read_committed consumers would wait until the clock catches up."""
    lab = TransactionLab().begun(A0)
    lab.now_ms += TIMEOUT_MS - 86_400_000
    effects = lab.fire("overdue", TX)
    assert lab.label == "PrepareAbort"
    lab.markers(effects)
    assert lab.label == "CompleteAbort"


@pytest.mark.parametrize("server_version", [0, 2])
def test_an_overdue_transaction_is_aborted_and_its_producer_fenced(server_version: int) -> None:
    """TX-9."""
    lab = TransactionLab(replace(SETTINGS, server_version=server_version)).begun(A0)
    lab.now_ms = 1_000 + TIMEOUT_MS - 1
    assert lab.fire("overdue", TX) == [SetTimer(("overdue", TX), 1_000 + TIMEOUT_MS)]
    lab.now_ms += 1
    aborted = lab.state.fenced(server_version=server_version, now_ms=lab.now_ms)
    effects = lab.fire("overdue", TX)
    assert effects == [
        SetTimer(("overdue", TX), lab.now_ms + 10_000),
        Append((aborted.record(),)),
        replace(sending(1, A0), is_commit=False, client_version=server_version),
    ]
    assert lab.fire("overdue", TX) == []
    lab.markers(effects)
    response = lab.answer(adding(9, 0, A0))
    assert isinstance(response, AddPartitionsToTxnResponse)
    ((partition,),) = (
        topic.results_by_partition
        for result in response.results_by_transaction
        for topic in result.topic_results
    )
    assert partition.partition_error_code is ErrorCode.PRODUCER_FENCED


def test_an_abort_that_could_not_be_written_is_retried() -> None:
    """TX-9."""
    lab = TransactionLab().begun(A0)
    lab.now_ms += TIMEOUT_MS
    (timer, *_) = lab.handle(TimerFired(("overdue", TX), lab.now_ms), appends_fail=True)
    assert timer == SetTimer(("overdue", TX), lab.now_ms + 10_000)
    lab.fire("overdue", TX)
    assert (lab.state.state, lab.state.producer_epoch) == (TransactionState.PREPARE_ABORT, 1)


def test_unused_ids_expire() -> None:
    """TX-10. Their producers are then unknown; ongoing and prepared ones stay."""
    lab = TransactionLab().begun(A0)
    lab.now_ms += SETTINGS.expiration_ms
    again = SetTimer(("expiry",), lab.now_ms + HOUR_MS)
    assert lab.fire("expiry") == [again]
    effects = lab.ask(end(9, 0, committed=True))
    lab.now_ms += SETTINGS.expiration_ms
    assert len(lab.fire("expiry")) == 1
    lab.markers(effects)
    lab.now_ms += SETTINGS.expiration_ms - 1
    assert len(lab.fire("expiry")) == 1
    lab.now_ms += 1
    assert lab.fire("expiry")[1:] == [Append((tombstone_of(TX),))]
    assert lab.shard.get(TX) is None
    lab.reload()
    assert lab.shard.get(TX) is None


def test_many_ids_expire_in_bounded_appends() -> None:
    """TX-10."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    for number in range(1_500):
        lab.known(replace(lab.state, transactional_id=f"t{number}"))
    lab.now_ms += SETTINGS.expiration_ms
    _, *appends = lab.fire("expiry")
    assert [len(each.records) for each in appends if isinstance(each, Append)] == [1_000, 501]
