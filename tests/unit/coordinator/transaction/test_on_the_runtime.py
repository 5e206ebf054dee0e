"""The transaction shard on its runtime, over a log in memory."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.end_txn import EndTxnResponse
from headwater.protocol.messages.init_producer_id import InitProducerIdResponse
from tests.simulation.labs.hosted_transactions import HostedTransactions
from tests.simulation.labs.transaction_lab import A0, TIMEOUT_MS, adding, end, init


def begun() -> HostedTransactions:
    hosted = HostedTransactions()
    assert hosted.ask(init()) == [InitProducerIdResponse(producer_id=9, producer_epoch=0)]
    hosted.ask(adding(9, 0, A0))
    return hosted


def test_a_transaction_goes_through_all_its_states() -> None:
    """TX-1."""
    hosted = begun()
    assert hosted.ask(end(9, 0, committed=True)) == [
        EndTxnResponse(producer_id=9, producer_epoch=1)
    ]
    assert hosted.label == "PrepareCommit"
    hosted.answer_markers()
    assert hosted.label == "CompleteCommit"


def test_neither_response_nor_markers_are_sent_before_the_decision_is_committed() -> None:
    """TX-5, TX-6."""
    hosted = begun()
    hosted.log.commit()
    hosted.log.commits_at_once = False
    answers = hosted.ask(end(9, 0, committed=True))
    assert (answers, hosted.sent) == ([], [])
    hosted.log.commit()
    assert answers == [EndTxnResponse(producer_id=9, producer_epoch=1)]
    assert [sending.partitions for sending in hosted.sent] == [(A0,)]


def test_a_decision_that_cannot_be_written_sends_nothing() -> None:
    """TX-1."""
    hosted = begun()
    hosted.log.append_errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    answers = hosted.ask(end(9, 0, committed=True))
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (hosted.sent, hosted.label) == ([], "Ongoing")


def test_after_a_restart_the_markers_are_sent_again() -> None:
    """TX-6."""
    hosted = begun()
    hosted.ask(end(9, 0, committed=True))
    hosted.restart()
    assert [sending.partitions for sending in hosted.sent] == [(A0,)]
    hosted.answer_markers()
    assert hosted.label == "CompleteCommit"


def test_after_a_restart_an_ongoing_transaction_still_times_out() -> None:
    """TX-9."""
    hosted = begun()
    hosted.restart()
    hosted.pass_time(TIMEOUT_MS + 1)
    assert hosted.label == "PrepareAbort"
    hosted.answer_markers()
    assert hosted.label == "CompleteAbort"
