"""Markers between a coordinator and partition leaders."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    MarkerOutcome,
    MarkersAnswered,
    SendMarkers,
)
from headwater.coordinator.transaction.transaction_marker_delivery import (
    MarkerResponses,
    NoLeader,
    address,
    failed,
    outcome_of,
    outcomes_of,
    request_of,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.simulation.labs.transaction_lab import A0, A1, B0, TX

FAILED, GONE = MarkerOutcome.FAILED, MarkerOutcome.PARTITION_DELETED
FENCED, WRITTEN = MarkerOutcome.FENCED, MarkerOutcome.WRITTEN
ONE, TWO = NodeId(1), NodeId(2)
C0, D0 = TopicPartition("c", 0), TopicPartition("d", 0)


def sending(transactional_id: str, producer_id: int, *partitions: TopicPartition) -> SendMarkers:
    return SendMarkers(
        transactional_id=transactional_id,
        send_id=4,
        producer_id=ProducerId(producer_id),
        producer_epoch=6,
        coordinator_epoch=3,
        client_version=2,
        is_commit=True,
        partitions=partitions,
    )


def answered(
    transactional_id: str, *outcomes: tuple[TopicPartition, MarkerOutcome]
) -> MarkersAnswered:
    return MarkersAnswered(
        transactional_id=transactional_id, send_id=4, outcomes=outcomes, now_ms=50
    )


LEADERS: dict[TopicPartition, NodeId | NoLeader] = {
    A0: ONE,
    A1: TWO,
    B0: ONE,
    C0: NoLeader.DELETED,
    D0: NoLeader.UNKNOWN_FOR_NOW,
}


def test_each_leader_gets_the_markers_of_all_transactions_in_one_request() -> None:
    """TX-6."""
    pay, ship = sending("pay", 9, A0, A1), sending("ship", 10, B0)
    addressed = address([pay, ship], LEADERS.__getitem__, now_ms=50)
    assert addressed.by_leader == {
        ONE: [replace(pay, partitions=(A0,)), ship],
        TWO: [replace(pay, partitions=(A1,))],
    }
    assert addressed.answered == []


def test_deleted_partitions_need_no_leader_and_leaderless_ones_wait() -> None:
    """TX-6."""
    addressed = address([sending(TX, 9, C0, A0, D0)], LEADERS.__getitem__, now_ms=50)
    assert addressed.by_leader == {ONE: [sending(TX, 9, A0)]}
    assert addressed.answered == [answered(TX, (C0, GONE), (D0, FAILED))]


def test_a_request_has_the_result_of_each_producers_transaction() -> None:
    assert request_of([sending(TX, 9, A0, B0, A1)]) == WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=9,
                producer_epoch=6,
                transaction_result=True,
                topics=(
                    WritableTxnMarkerTopic(name="a", partition_indexes=(0, 1)),
                    WritableTxnMarkerTopic(name="b", partition_indexes=(0,)),
                ),
                coordinator_epoch=3,
                client_version=2,
            ),
        )
    )


def test_responses_are_mapped_to_transactions_and_missing_ones_fail() -> None:
    """TX-6."""
    sendings = [sending("pay", 9, A0, B0), sending("ship", 10, A0)]
    answers = MarkerResponses(request_of(sendings))
    assert answers.missing() == [(0, A0), (0, B0), (1, A0)]
    answers.add(0, A0, ErrorCode.NONE)
    answers.add(1, A0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert answers.missing() == [(0, B0)]
    answers.add(0, B0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response = answers.response()
    assert outcomes_of(sendings, response, now_ms=50) == [
        answered("pay", (A0, WRITTEN), (B0, FAILED)),
        answered("ship", (A0, FENCED)),
    ]
    assert failed(sendings, now_ms=50) == [
        answered("pay", (A0, FAILED), (B0, FAILED)),
        answered("ship", (A0, FAILED)),
    ]


def test_two_markers_of_one_producer_have_one_result() -> None:
    twice = MarkerResponses(request_of([sending(TX, 9, A0), sending(TX, 9, A1)]))
    for place, partition in twice.missing():
        twice.add(place, partition, ErrorCode.NONE)
    (result,) = twice.response().markers
    assert [each.partition_index for topic in result.topics for each in topic.partitions] == [0, 1]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_only_final_outcomes_end_the_retries(code: ErrorCode) -> None:
    """TX-6."""
    final = {
        ErrorCode.NONE: WRITTEN,
        ErrorCode.INVALID_PRODUCER_EPOCH: FENCED,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: GONE,
        ErrorCode.UNSUPPORTED_VERSION: GONE,
    }
    assert outcome_of(code) is final.get(code, FAILED)
