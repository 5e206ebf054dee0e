"""AddPartitionsToTxn and AddOffsetsToTxn."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.coordinator.runtime.coordinator_effects import Append, Effect, Reply, SetTimer
from headwater.coordinator.runtime.partition_for_key import partition_for
from headwater.coordinator.transaction.add_partitions_to_txn import (
    reject_invalid_partitions,
    result_of,
)
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from tests.simulation.labs.transaction_lab import (
    A0,
    A1,
    B0,
    CALLER,
    TIMEOUT_MS,
    TX,
    TransactionLab,
    adding,
    end,
    init,
)

FROM_CLIENT, FROM_LEADER = 3, 5


def replied(request: AddPartitionsToTxnRequest, *codes: ErrorCode) -> Reply:
    """One code for each partition of the request."""
    (transaction,) = request.transactions
    told = iter(codes)
    result = result_of(transaction, lambda _: next(told))
    return Reply(CALLER, AddPartitionsToTxnResponse(results_by_transaction=(result,)))


def initialised() -> TransactionLab:
    lab = TransactionLab()
    lab.give(lab.ask(init()), 9)
    return lab


def test_the_first_partition_starts_the_transaction_and_its_timeout() -> None:
    """TX-4, TX-9."""
    lab = initialised()
    lab.now_ms = 5_000
    request = adding(9, 0, A0, A1)
    ongoing = lab.state.with_partitions((A0, A1), client_version=0, now_ms=5_000)
    assert lab.ask(request, FROM_CLIENT) == [
        SetTimer(("overdue", TX), 5_000 + TIMEOUT_MS),
        Append((ongoing.record(),)),
        replied(request, ErrorCode.NONE, ErrorCode.NONE),
    ]


def test_further_partitions_do_not_extend_the_timeout() -> None:
    """TX-9."""
    lab = TransactionLab().begun(A0)
    lab.now_ms = 5_000
    request = adding(9, 0, A0, B0)
    more = lab.state.with_partitions((B0,), client_version=0, now_ms=5_000)
    assert (more.start_ms, more.partitions) == (1_000, (A0, B0))
    assert lab.ask(request, FROM_CLIENT) == [
        Append((more.record(),)),
        replied(request, ErrorCode.NONE, ErrorCode.NONE),
    ]


def test_a_partition_in_the_transaction_is_not_written_again() -> None:
    """TX-4."""
    lab = TransactionLab().begun(A0, A1)
    request = adding(9, 0, A1)
    assert lab.ask(request, FROM_CLIENT) == [replied(request, ErrorCode.NONE)]


@pytest.mark.parametrize("committed", [True, False])
def test_the_next_transaction_starts_without_partitions(committed: bool) -> None:
    """TX-4. Also if it adds the same partition."""
    lab = TransactionLab().begun(A0, A1)
    lab.markers(lab.ask(end(9, 0, committed=committed), 4))
    lab.now_ms = 8_000
    lab.ask(adding(9, 0, A1), FROM_CLIENT)
    assert (lab.state.partitions, lab.state.start_ms) == ((A1,), 8_000)


def test_unknown_and_fenced_producers_add_nothing() -> None:
    """TX-4."""
    mapping, request = ErrorCode.INVALID_PRODUCER_ID_MAPPING, adding(9, 0, A0)
    assert TransactionLab().ask(request) == [replied(request, mapping)]
    lab = TransactionLab().begun(A0)
    other, zombie = adding(8, 0, A0), adding(9, 1, A0)
    assert lab.ask(other) == [replied(other, mapping)]
    assert lab.ask(zombie, 2) == [replied(zombie, ErrorCode.PRODUCER_FENCED)]
    assert lab.ask(zombie, 1) == [replied(zombie, ErrorCode.INVALID_PRODUCER_EPOCH)]
    (transaction,) = request.transactions
    nameless = AddPartitionsToTxnRequest(transactions=(replace(transaction, transactional_id=""),))
    for each in (nameless, verifying(nameless)):
        assert lab.ask(each) == [replied(each, ErrorCode.INVALID_REQUEST)]


def verifying(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    (transaction,) = request.transactions
    return AddPartitionsToTxnRequest(transactions=(replace(transaction, verify_only=True),))


def test_requests_wait_while_markers_are_pending() -> None:
    """TX-4. Kafka 4.1 checks this before the producer."""
    lab = TransactionLab().begun(A0)
    lab.ask(end(9, 0, committed=True))
    for request in (adding(9, 0, A0), adding(9, 1, A0), adding(8, 0, A0)):
        assert lab.ask(request) == [replied(request, ErrorCode.CONCURRENT_TRANSACTIONS)]


def test_verification_returns_the_partitions_of_the_transaction_and_changes_nothing() -> None:
    """TX-13."""
    lab = TransactionLab().begun(A0)
    request = adding(9, 0, A0, B0, verify_only=True)
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert lab.ask(request, FROM_LEADER) == [replied(request, ErrorCode.NONE, abortable)]
    for producer_id, epoch, code in (
        (8, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (9, 1, ErrorCode.PRODUCER_FENCED),
    ):
        wrong = adding(producer_id, epoch, A0, verify_only=True)
        assert lab.ask(wrong, FROM_LEADER) == [replied(wrong, code)]


@pytest.mark.parametrize("version", [4, 5])
def test_a_decided_transaction_is_not_verified(version: int) -> None:
    """TX-13. While markers are pending the leader must retry; then there is no transaction."""
    lab = TransactionLab().begun(A0)
    ending = lab.ask(end(9, 0, committed=True), version)
    epoch = lab.state.producer_epoch
    request = adding(9, epoch, A0, verify_only=True)
    assert lab.ask(request) == [replied(request, ErrorCode.CONCURRENT_TRANSACTIONS)]
    lab.markers(ending)
    assert lab.ask(request) == [replied(request, ErrorCode.TRANSACTION_ABORTABLE)]


def test_a_leader_adds_partitions_for_a_version_2_client() -> None:
    """TX-14. The record has the client's transaction version."""
    lab = initialised()
    lab.ask(adding(9, 0, A0), FROM_LEADER)
    assert (lab.state.state, lab.state.client_version) == (TransactionState.ONGOING, 2)


def test_several_transactions_share_one_append_and_have_their_own_results() -> None:
    """TX-13."""
    lab = initialised()
    first, second, third = adding(9, 0, A0), adding(9, 0, A1), adding(8, 0, B0)
    ours = lab.state.with_partitions((A0, A1), client_version=2, now_ms=1_000)
    request = AddPartitionsToTxnRequest(
        transactions=(*first.transactions, *second.transactions, *third.transactions)
    )
    effects = lab.ask(request, FROM_LEADER)
    assert effects[:2] == [
        SetTimer(("overdue", TX), 1_000 + TIMEOUT_MS),
        Append((ours.record(),)),
    ]
    (reply,) = effects[2:]
    assert isinstance(reply, Reply)
    assert isinstance(reply.response, AddPartitionsToTxnResponse)
    assert [
        result.topic_results[0].results_by_partition[0].partition_error_code
        for result in reply.response.results_by_transaction
    ] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_one_invalid_partition_rejects_all_of_a_transaction() -> None:
    """TX-4."""
    unknown, untried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    (transaction,) = adding(9, 0, A0, B0).transactions

    def why_not(partition: TopicPartition) -> ErrorCode:
        return unknown if partition == B0 else ErrorCode.NONE

    expected = {A0: untried, B0: unknown}
    assert reject_invalid_partitions(transaction, why_not) == result_of(
        transaction, expected.__getitem__
    )
    assert reject_invalid_partitions(transaction, lambda _: ErrorCode.NONE) is None


def offsets(group: str, epoch: int = 0, transactional_id: str = TX) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=9, producer_epoch=epoch, group_id=group
    )


def test_offsets_are_added_as_the_partition_of_the_group() -> None:
    """TX-4."""
    lab = initialised()
    kept_in = TopicPartition("__consumer_offsets", partition_for("readers", 50))
    ongoing = lab.state.with_partitions((kept_in,), client_version=0, now_ms=1_000)
    done: list[Effect] = [Reply(CALLER, AddOffsetsToTxnResponse())]
    assert lab.ask(offsets("readers"), 3) == [
        SetTimer(("overdue", TX), 1_000 + TIMEOUT_MS),
        Append((ongoing.record(),)),
        *done,
    ]
    assert lab.ask(offsets("readers"), 3) == done


def test_offsets_of_a_fenced_producer_are_rejected() -> None:
    """TX-4."""
    lab = initialised()
    for version, code in (
        (2, ErrorCode.PRODUCER_FENCED),
        (1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        refused = Reply(CALLER, AddOffsetsToTxnResponse(error_code=code))
        assert lab.ask(offsets("readers", epoch=1), version) == [refused]
    nameless = Reply(CALLER, AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
    assert lab.ask(offsets("readers", transactional_id=""), 3) == [nameless]
