"""EndTxn in both transaction versions."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Reply,
    SendMarkers,
    SetTimer,
)
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tests.simulation.labs.transaction_lab import (
    A0,
    A1,
    CALLER,
    COORDINATOR_EPOCH,
    TX,
    TransactionLab,
    adding,
    end,
    init,
)

V1, V2 = 4, 5


def refused(code: ErrorCode) -> list[Effect]:
    return [Reply(CALLER, EndTxnResponse(error_code=code))]


def ended(producer_id: int, epoch: int) -> Reply:
    return Reply(CALLER, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))


def markers(epoch: int, *partitions: TopicPartition, is_commit: bool) -> SendMarkers:
    return SendMarkers(
        transactional_id=TX,
        send_id=1,
        producer_id=ProducerId(9),
        producer_epoch=epoch,
        coordinator_epoch=COORDINATOR_EPOCH,
        client_version=2 if epoch else 0,
        is_commit=is_commit,
        partitions=partitions,
    )


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_is_written_then_answered_and_then_the_markers_are_sent(committed: bool) -> None:
    """TX-5, TX-6. Complete follows when all markers are written."""
    lab = TransactionLab().begun(A0, A1)
    before = lab.state
    prepared = before.ended(is_commit=committed, now_ms=1_000)
    effects = lab.ask(end(9, 0, committed=committed), V1)
    assert effects == [
        Append((prepared.record(),)),
        ended(9, 0),
        markers(0, A0, A1, is_commit=committed),
    ]
    done = prepared.completed(1_000)
    assert lab.markers(effects) == [SetTimer(("markers", TX), 1_100), Append((done.record(),))]
    states = (TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT)
    assert (lab.state.state, lab.state.partitions) == (states[committed], ())


def test_version_1_recognizes_a_retry_by_its_result() -> None:
    """TX-5."""
    lab = TransactionLab().begun(A0)
    effects = lab.ask(end(9, 0, committed=True), V1)
    for committed in (True, False):
        again = lab.ask(end(9, 0, committed=committed), V1)
        assert again == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    lab.markers(effects)
    assert lab.ask(end(9, 0, committed=True), V1) == [ended(9, 0)]
    assert lab.ask(end(9, 0, committed=False), V1) == refused(ErrorCode.INVALID_TXN_STATE)


def test_version_1_has_nothing_to_end_before_a_transaction() -> None:
    """TX-5."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    for committed in (True, False):
        assert lab.ask(end(9, 0, committed=committed), V1) == refused(ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize("version", [V1, V2])
def test_unknown_and_fenced_producers_end_nothing(version: int) -> None:
    """TX-4, TX-14."""
    mapping = refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert TransactionLab().ask(end(9, 0, committed=True), version) == mapping
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    lab.ask(init())
    lab.ask(adding(9, 1, A0))
    assert lab.ask(end(8, 1, committed=True), version) == mapping
    assert lab.ask(end(9, 0, committed=True), version) == refused(ErrorCode.PRODUCER_FENCED)
    assert lab.ask(end(9, 2, committed=True), version) == refused(ErrorCode.PRODUCER_FENCED)
    nameless = EndTxnRequest(transactional_id="", producer_id=9, producer_epoch=1)
    assert lab.ask(nameless, version) == refused(ErrorCode.INVALID_REQUEST)


def test_clients_before_api_version_2_get_an_older_error_when_fenced() -> None:
    lab = TransactionLab().begun(A0)
    assert lab.ask(end(9, 7, committed=True), 1) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_2_every_end_raises_the_epoch_and_the_markers_carry_it(committed: bool) -> None:
    """TX-14."""
    lab = TransactionLab().begun(A0)
    prepared = lab.state.ended_with_bump(is_commit=committed, now_ms=1_000)
    assert lab.ask(end(9, 0, committed=committed), V2) == [
        Append((prepared.record(),)),
        ended(9, 1),
        markers(1, A0, is_commit=committed),
    ]


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_2_a_retry_has_the_previous_epoch_and_gets_the_same_response(
    committed: bool,
) -> None:
    """TX-14."""
    lab = TransactionLab().begun(A0)
    effects = lab.ask(end(9, 0, committed=committed), V2)
    assert lab.ask(end(9, 0, committed=committed), V2) == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    lab.markers(effects)
    assert lab.ask(end(9, 0, committed=committed), V2) == [ended(9, 1)]
    assert lab.ask(end(9, 0, committed=not committed), V2) == refused(ErrorCode.INVALID_TXN_STATE)


def test_in_version_2_a_retry_is_recognized_after_a_restart_too() -> None:
    """TX-14. The epoch is in the log, unlike the last epoch of InitProducerId."""
    lab = TransactionLab().begun(A0)
    lab.markers(lab.ask(end(9, 0, committed=True), V2))
    lab.reload()
    assert lab.ask(end(9, 0, committed=True), V2) == [ended(9, 1)]


def test_in_version_2_an_abort_without_a_transaction_raises_the_epoch() -> None:
    """TX-14. A commit without one is an error of the client."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    assert lab.ask(end(9, 0, committed=True), V2) == refused(ErrorCode.INVALID_TXN_STATE)
    aborted = lab.state.ended_with_bump(is_commit=False, now_ms=1_000)
    done = aborted.completed(1_000)
    assert lab.ask(end(9, 0, committed=False), V2) == [
        Append((aborted.record(), done.record())),
        ended(9, 1),
    ]
    # From CompleteAbort, and from CompleteCommit.
    assert lab.ask(end(9, 1, committed=False), V2)[-1] == ended(9, 2)
    lab.ask(adding(9, 2, A0))
    lab.markers(lab.ask(end(9, 2, committed=True), V2))
    assert lab.ask(end(9, 3, committed=True), V2) == refused(ErrorCode.INVALID_TXN_STATE)
    assert lab.ask(end(9, 3, committed=False), V2)[-1] == ended(9, 4)


def exhausted() -> TransactionLab:
    lab = TransactionLab().begun(A0)
    ongoing: TransactionMetadata = replace(lab.state, producer_epoch=32766)
    return TransactionLab().known(ongoing)


def test_in_version_2_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    """TX-14. The markers are sent under the old one, by which a retry is recognized."""
    lab = exhausted()
    effects = lab.give(lab.ask(end(9, 32766, committed=True), V2), 20)
    prepared = lab.state
    assert effects == [
        Append((prepared.record(),)),
        ended(20, 0),
        markers(32767, A0, is_commit=True),
    ]
    assert (prepared.producer_id, prepared.producer_epoch) == (9, 32767)
    # The new id is not in effect yet, and its owner has to wait.
    early = refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert lab.ask(end(20, 0, committed=False), V2) == early
    lab.markers(effects)
    assert (lab.state.producer_id, lab.state.producer_epoch) == (20, 0)
    assert lab.ask(end(9, 32766, committed=True), V2) == [ended(20, 0)]


def test_a_new_producer_id_survives_a_restart() -> None:
    """TX-14. Kafka 4.1 does not store it, and the producer is unknown afterwards."""
    lab = exhausted()
    lab.give(lab.ask(end(9, 32766, committed=True), V2), 20)
    lab.markers(lab.reload())
    assert (lab.state.producer_id, lab.state.producer_epoch) == (20, 0)
    assert lab.ask(end(9, 32766, committed=True), V2) == [ended(20, 0)]


def test_a_producer_timed_out_in_its_last_epoch_does_not_get_the_fencing_epoch() -> None:
    """TX-9, TX-14. Kafka 4.1 answers with epoch 32767, which cannot be raised any more."""
    lab = exhausted()
    lab.now_ms += 60_000
    lab.markers(lab.fire("overdue", TX))
    assert lab.state.producer_epoch == 32767
    assert lab.ask(end(9, 32766, committed=False), V2) == refused(ErrorCode.PRODUCER_FENCED)


def test_without_a_producer_id_the_transaction_stays_open() -> None:
    lab = exhausted()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.give(lab.ask(end(9, 32766, committed=True), V2), code) == refused(code)
    assert lab.label == "Ongoing"


def test_an_end_whose_append_failed_can_be_retried() -> None:
    """TX-1."""
    lab = TransactionLab().begun(A0)
    lab.ask(end(9, 0, committed=True), V2, appends_fail=True)
    assert lab.label == "Ongoing"
    effects = lab.ask(end(9, 0, committed=True), V2)
    assert effects[1] == ended(9, 1)
    lab.markers(effects)
    assert lab.label == "CompleteCommit"
