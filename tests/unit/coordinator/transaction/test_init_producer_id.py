"""InitProducerId with a transactional id."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    GenerateProducerId,
    Reply,
    SendMarkers,
)
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.end_txn import EndTxnResponse
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.simulation.labs.transaction_lab import (
    A0,
    CALLER,
    COORDINATOR_EPOCH,
    SETTINGS,
    TIMEOUT_MS,
    TX,
    TransactionLab,
    adding,
    end,
    init,
)

FIRST = TransactionMetadata(
    transactional_id=TX,
    producer_id=ProducerId(9),
    producer_epoch=0,
    timeout_ms=TIMEOUT_MS,
    state=TransactionState.EMPTY,
    last_update_ms=1_000,
    previous_producer_id=ProducerId(9),
)


def given(producer_id: int, epoch: int) -> Reply:
    return Reply(CALLER, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def refused(code: ErrorCode) -> list[Effect]:
    response = InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return [Reply(CALLER, response)]


def test_a_new_transactional_id_gets_a_new_producer_id_with_epoch_0() -> None:
    """TX-2."""
    lab = TransactionLab()
    asked = lab.asked(init())
    waiting = lab.handle(asked)
    assert waiting == [GenerateProducerId(asked)]
    assert lab.give(waiting, 9) == [Append((FIRST.record(),)), given(9, 0)]


def test_without_an_available_producer_id_the_request_fails_with_the_reason() -> None:
    lab = TransactionLab()
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert lab.give(lab.ask(init()), code) == refused(code)


def test_two_concurrent_first_requests_leave_one_owner_and_waste_an_id() -> None:
    """TX-2. The second finds the id known by then and takes it over."""
    lab = TransactionLab()
    one, other = lab.ask(init()), lab.ask(init())
    assert lab.give(one, 9)[-1] == given(9, 0)
    assert lab.give(other, 10)[-1] == given(9, 1)


def test_the_next_producer_gets_the_next_epoch_and_the_old_one_is_fenced() -> None:
    """TX-2, TX-4."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    next_one = replace(FIRST, producer_epoch=1)
    assert lab.ask(init()) == [Append((next_one.record(),)), given(9, 1)]
    assert lab.ask(init(9, 0)) == refused(ErrorCode.PRODUCER_FENCED)
    assert lab.ask(init(9, 0), version=3) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)


def test_an_ongoing_transaction_is_aborted_and_the_client_retries() -> None:
    """TX-2. The markers carry the fencing epoch."""
    lab = TransactionLab().begun(A0)
    aborted = lab.state.fenced(server_version=2, now_ms=1_000)
    assert (aborted.state, aborted.producer_epoch) == (TransactionState.PREPARE_ABORT, 1)
    effects = lab.ask(init())
    assert effects == [
        Append((aborted.record(),)),
        *refused(ErrorCode.CONCURRENT_TRANSACTIONS),
        SendMarkers(
            transactional_id=TX,
            send_id=1,
            producer_id=ProducerId(9),
            producer_epoch=1,
            coordinator_epoch=COORDINATOR_EPOCH,
            client_version=2,
            is_commit=False,
            partitions=(A0,),
        ),
    ]
    assert lab.ask(init()) == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    lab.markers(effects)
    assert lab.ask(init())[-1] == given(9, 2)


@pytest.mark.parametrize("server_version", [0, 2])
def test_fencing_raises_the_epoch_once_in_either_version(server_version: int) -> None:
    """TX-2. In Kafka 4.0 it was twice in version 2; 4.1 raises it once."""
    lab = TransactionLab(replace(SETTINGS, server_version=server_version)).begun(A0)
    lab.ask(init())
    assert (lab.state.producer_epoch, lab.state.client_version) == (1, server_version)


def test_a_producer_that_continues_sends_its_id_and_gets_the_next_epoch() -> None:
    """TX-3, KIP-360."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    assert lab.ask(init(9, 0))[-1] == given(9, 1)
    assert lab.ask(init(8, 0)) == refused(ErrorCode.PRODUCER_FENCED)


def test_a_retried_request_gets_the_same_response() -> None:
    """TX-3. Only as long as no other producer has come."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    assert [lab.ask(init(9, 0))[-1] for _ in range(3)] == [given(9, 1)] * 3
    assert lab.ask(init())[-1] == given(9, 2)
    assert lab.ask(init(9, 0)) == refused(ErrorCode.PRODUCER_FENCED)
    assert lab.ask(init(9, 1)) == refused(ErrorCode.PRODUCER_FENCED)


def test_a_failed_append_leaves_no_epoch_behind() -> None:
    """TX-1. A decision that was not written answers no retry."""
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    lab.ask(init(9, 0), appends_fail=True)
    assert lab.ask(init())[-1] == given(9, 1)
    assert lab.ask(init(9, 0)) == refused(ErrorCode.PRODUCER_FENCED)


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    """TX-2. And a retry is still recognized by the old one (TX-3)."""
    lab = TransactionLab().known(replace(FIRST, producer_epoch=32765))
    assert lab.ask(init(9, 32765))[-1] == given(9, 32766)
    waiting = lab.ask(init(9, 32766))
    assert lab.give(waiting, 20)[-1] == given(20, 0)
    assert lab.ask(init(9, 32766))[-1] == given(20, 0)
    assert lab.ask(init(9, 5)) == refused(ErrorCode.PRODUCER_FENCED)


def test_the_fencing_epoch_is_never_assigned_to_a_producer() -> None:
    """TX-2."""
    lab = TransactionLab().known(replace(FIRST, producer_epoch=32766))
    lab.ask(adding(9, 32766, A0))
    lab.markers(lab.ask(init()))
    assert lab.state.producer_epoch == 32767
    assert lab.give(lab.ask(init()), 20)[-1] == given(20, 0)


def test_a_producer_timed_out_in_its_last_epoch_gets_a_new_producer_id() -> None:
    """TX-9, TX-3. Kafka 4.1 fails here with UNKNOWN_SERVER_ERROR."""
    lab = TransactionLab().known(replace(FIRST, producer_epoch=32766))
    lab.ask(adding(9, 32766, A0))
    lab.now_ms += TIMEOUT_MS
    lab.markers(lab.fire("overdue", TX))
    assert lab.give(lab.ask(init(9, 32766)), 20)[-1] == given(20, 0)
    assert lab.ask(init(9, 32766))[-1] == given(20, 0)


def test_a_producer_continues_after_its_transaction_timed_out() -> None:
    """TX-9, KIP-360. The fencing epoch was raised for it, so it takes that one."""
    lab = TransactionLab().begun(A0)
    lab.now_ms += TIMEOUT_MS
    lab.markers(lab.fire("overdue", TX))
    assert lab.answer(end(9, 0, committed=True), version=4) == EndTxnResponse(
        error_code=ErrorCode.PRODUCER_FENCED
    )
    assert lab.ask(init(9, 0))[-1] == given(9, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_rejected(timeout_ms: int) -> None:
    """TX-2."""
    lab = TransactionLab()
    assert lab.ask(init(timeout_ms=timeout_ms)) == refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def test_invalid_requests_are_rejected() -> None:
    lab = TransactionLab()
    nameless = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=5)
    assert lab.ask(nameless) == refused(ErrorCode.INVALID_REQUEST)
    assert lab.ask(init(9, -1)) == refused(ErrorCode.INVALID_REQUEST)
    assert lab.ask(init(-1, 0)) == refused(ErrorCode.INVALID_REQUEST)


def test_two_phase_commit_is_not_supported() -> None:
    lab = TransactionLab()
    two_phases = InitProducerIdRequest(
        transactional_id=TX, transaction_timeout_ms=5, enable2_pc=True
    )
    keeping = InitProducerIdRequest(
        transactional_id=TX, transaction_timeout_ms=5, keep_prepared_txn=True
    )
    assert lab.ask(two_phases, 6) == refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert lab.ask(keeping, 6) == refused(ErrorCode.UNSUPPORTED_VERSION)
