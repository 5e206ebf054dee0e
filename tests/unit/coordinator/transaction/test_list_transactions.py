"""DescribeTransactions and ListTransactions."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.coordinator_effects import MarkerOutcome
from headwater.coordinator.transaction.list_transactions import merge_lists
from headwater.protocol.messages import describe_transactions, list_transactions
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.simulation.labs.transaction_lab import (
    A0,
    A1,
    B0,
    TIMEOUT_MS,
    TX,
    TransactionLab,
    end,
    init,
)

OTHER = "order-7"


def test_a_transaction_is_described_with_its_partitions_by_topic() -> None:
    lab = TransactionLab().begun(A0, B0, A1)
    expected = describe_transactions.TransactionState(
        transactional_id=TX,
        transaction_state="Ongoing",
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_start_time_ms=1_000,
        producer_id=9,
        producer_epoch=0,
        topics=(TopicData(topic="a", partitions=(0, 1)), TopicData(topic="b", partitions=(0,))),
    )
    assert described(lab, TX) == (expected,)
    effects = lab.ask(end(9, 0, committed=True))
    written, failed = MarkerOutcome.WRITTEN, MarkerOutcome.FAILED
    lab.markers(effects, written, failed, written)
    (prepared,) = described(lab, TX)
    assert prepared.transaction_state == "PrepareCommit"
    assert prepared.topics == (TopicData(topic="b", partitions=(0,)),)


def test_unknown_and_empty_ids_have_their_own_errors() -> None:
    unknown, invalid = described(TransactionLab(), "unknown", "")
    assert unknown.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert invalid.error_code is ErrorCode.INVALID_REQUEST


def described(lab: TransactionLab, *ids: str) -> tuple[describe_transactions.TransactionState, ...]:
    response = lab.answer(DescribeTransactionsRequest(transactional_ids=ids), 0)
    assert isinstance(response, DescribeTransactionsResponse)
    return response.transaction_states


def two() -> TransactionLab:
    """One transaction that started at 1,000 and one id without a transaction."""
    lab = TransactionLab().begun(A0)
    resting = TransactionLab()
    resting.give(resting.ask(init()), 12)
    other = resting.shard.get(TX)
    assert other is not None
    return lab.known(replace(other, transactional_id=OTHER))


def listed(
    lab: TransactionLab, request: ListTransactionsRequest
) -> tuple[list[str], ListTransactionsResponse]:
    response = lab.answer(request, 2)
    assert isinstance(response, ListTransactionsResponse)
    return [each.transactional_id for each in response.transaction_states], response


def test_without_filters_all_are_listed() -> None:
    ids, response = listed(two(), ListTransactionsRequest())
    assert ids == [TX, OTHER]
    assert response.transaction_states[0] == list_transactions.TransactionState(
        transactional_id=TX, producer_id=9, transaction_state="Ongoing"
    )


def test_states_filter_and_unknown_ones_are_reported() -> None:
    lab = two()
    assert listed(lab, ListTransactionsRequest(state_filters=("Empty",)))[0] == [OTHER]
    both = ListTransactionsRequest(state_filters=("Ongoing", "ongoing", "Dead"))
    ids, response = listed(lab, both)
    assert (ids, response.unknown_state_filters) == ([TX], ("ongoing",))
    ids, response = listed(lab, ListTransactionsRequest(state_filters=("Wild",)))
    assert (ids, response.unknown_state_filters) == ([], ("Wild",))


def test_producers_and_durations_filter() -> None:
    lab = two()
    lab.now_ms = 6_000
    assert listed(lab, ListTransactionsRequest(producer_id_filters=(12, 13)))[0] == [OTHER]
    ongoing = ("Ongoing",)
    longer = ListTransactionsRequest(state_filters=ongoing, duration_filter=4_999)
    assert listed(lab, longer)[0] == [TX]
    equal = ListTransactionsRequest(state_filters=ongoing, duration_filter=5_000)
    assert listed(lab, equal)[0] == []


def test_a_pattern_must_match_the_whole_id() -> None:
    lab = two()
    for pattern, ids in (("order-.*", [OTHER]), ("order", []), ("", [TX, OTHER])):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        assert listed(lab, request)[0] == ids
    _, response = listed(lab, ListTransactionsRequest(transactional_id_pattern="(("))
    assert response.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("pattern", "is_match"),
    [
        (r"Source: \w+ -> Sink-[0-9]{1,2}", True),
        (r"Source: .*", True),
        (r".*\$\d", False),
        (r"Source:", False),
        (r"(?i)source: MINE.*", True),
        (r".*-\d\d", True),
        (r".*-\d\d\d", False),
        (r"(?:Source|Sink): (?P<who>[[:lower:]]*) .*", True),
    ],
)
def test_patterns_work_for_ids_with_any_characters(pattern: str, is_match: bool) -> None:
    """Characters that topic names cannot have count as underscores."""
    known = TransactionLab().begun(A0).state
    lab = TransactionLab().known(replace(known, transactional_id="Source: mine -> Sink-12"))
    found = listed(lab, ListTransactionsRequest(transactional_id_pattern=pattern))[0]
    assert bool(found) is is_match


def test_a_pattern_cannot_block_a_coordinator() -> None:
    known = TransactionLab().begun(A0).state
    lab = TransactionLab().known(replace(known, transactional_id="a" * 200 + "!"))
    assert listed(lab, ListTransactionsRequest(transactional_id_pattern="(a+)+b"))[0] == []


def test_the_lists_of_all_shards_are_merged_unless_one_fails() -> None:
    one = ListTransactionsResponse(
        unknown_state_filters=("Wild",),
        transaction_states=(list_transactions.TransactionState(transactional_id=TX),),
    )
    other = replace(
        one, transaction_states=(list_transactions.TransactionState(transactional_id=OTHER),)
    )
    both = ListTransactionsResponse(
        unknown_state_filters=("Wild",),
        transaction_states=(*one.transaction_states, *other.transaction_states),
    )
    assert merge_lists([one, other]) == both
    loading = ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert merge_lists([one, loading]) == loading
    assert merge_lists([]) == ListTransactionsResponse()
