"""Requests that wait for the metadata store, or time out."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import BrokerLab, Sent
from tests.simulation.labs.cluster_lab import topic


def held_lab() -> tuple[BrokerLab, HeldExecutor]:
    """A broker whose store writes nothing until the test says so."""
    lab = BrokerLab()
    return lab, lab.hold_store()


def create(lab: BrokerLab, timeout_ms: int) -> Sent:
    return lab.send(CreateTopicsRequest(topics=(topic("t"),), timeout_ms=timeout_ms))


def the_result(sent: Sent) -> CreatableTopicResult:
    (result,) = sent.answer(CreateTopicsResponse).topics
    return result


def test_topic_is_acknowledged_when_it_is_durable_and_holds_its_connection_until_then() -> None:
    """TO-3."""
    lab, store = held_lab()
    sent = create(lab, 1_000)
    assert not sent.is_answered
    assert sent.is_held
    store.finish()
    assert the_result(sent).error_code is ErrorCode.NONE
    assert not sent.is_held
    assert len(lab.broker.timer) == 0


def test_timed_out_request_is_answered_and_may_still_take_effect() -> None:
    lab, store = held_lab()
    sent = create(lab, 1_000)
    lab.pass_time(999)
    assert not sent.is_answered
    lab.pass_time(1)
    assert the_result(sent).error_code is ErrorCode.REQUEST_TIMED_OUT
    assert len(lab.broker.timer) == 0
    store.finish()
    assert "t" in lab.broker.image.topics


def test_request_with_timeout_0_is_not_evaluated() -> None:
    """As in Kafka 4.1, for all requests to the controller."""
    lab = BrokerLab()
    for timeout_ms in (0, -1):
        assert the_result(create(lab, timeout_ms)).error_code is ErrorCode.REQUEST_TIMED_OUT
    assert not lab.broker.image.topics
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=0)
    (result,) = lab.ask(request, DeleteTopicsResponse).responses
    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT


def test_store_failure_fails_waiting_requests() -> None:
    lab, store = held_lab()
    sent = create(lab, 1_000)
    lab.disk.fail_next_sync("*")
    store.finish()
    result = the_result(sent)
    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error_message
    lab.pass_time(5_000)
    assert len(lab.broker.timer) == 0


def test_failure_after_the_timeout_is_ignored() -> None:
    lab, store = held_lab()
    sent = create(lab, 10)
    lab.pass_time(10)
    lab.disk.fail_next_sync("*")
    store.finish()
    assert the_result(sent).error_code is ErrorCode.REQUEST_TIMED_OUT
