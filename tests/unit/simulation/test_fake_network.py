"""The network of the simulators: what it promises, and what it does not."""

import random

import pytest

from headwater.common.exceptions import ConnectionLost, HeadwaterError, RequestTimedOut
from headwater.common.ids import NodeId
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import FakeInterBrokerClient, FakeNetwork, Reply, served_by
from tests.simulation.fakes.virtual_time import VirtualTime, Weather
from tests.simulation.labs.broker_lab import BrokerLab

ONE, TWO = NodeId(1), NodeId(2)


class Node:
    """Keeps what it is asked, and answers when it is told to."""

    def __init__(self, network: FakeNetwork, node_id: NodeId) -> None:
        self.asked: list[tuple[NodeId, Message, Reply]] = []
        self.outcomes: list[Message | HeadwaterError] = []
        self.inter_broker_client: FakeInterBrokerClient = network.join(node_id, self._serve)

    def ask(self, node_id: NodeId, name: str, timeout_ms: int = 1_000) -> None:
        self.inter_broker_client.send_request(
            node_id,
            HeartbeatRequest(group_id=name),
            purpose=Purpose.CONTROL,
            timeout_ms=timeout_ms,
            then=self.outcomes.append,
            on_error=self.outcomes.append,
        )

    def answer(self, number: int, throttle_time_ms: int = 0) -> None:
        self.asked[number][2](HeartbeatResponse(throttle_time_ms=throttle_time_ms))

    @property
    def names(self) -> list[str]:
        requests = [request for _, request, _ in self.asked]
        assert all(isinstance(each, HeartbeatRequest) for each in requests)
        return [each.group_id for each in requests if isinstance(each, HeartbeatRequest)]

    def _serve(self, source: NodeId, request: Message, reply: Reply) -> None:
        self.asked.append((source, request, reply))


def world(weather: Weather | None = None) -> tuple[FakeNetwork, Node, Node]:
    network = FakeNetwork(VirtualTime(random.Random(1), weather=weather or Weather()))
    return network, Node(network, ONE), Node(network, TWO)


def test_a_request_arrives_later_and_its_answer_comes_back() -> None:
    network, one, two = world()
    one.ask(TWO, "a")
    assert not two.asked
    network.time.run_for(50)
    two.answer(0, 7)
    assert not one.outcomes
    network.time.run_for(50)
    assert one.outcomes == [HeartbeatResponse(throttle_time_ms=7)]


def test_requests_arrive_and_answers_leave_in_the_order_in_which_they_were_asked() -> None:
    network, one, two = world(Weather(delay=0.5))
    for name in "abcdef":
        one.ask(TWO, name)
    network.time.run_for(600)
    assert two.names == [*"abcdef"]
    for number in reversed(range(6)):
        two.answer(number, number)
    network.time.run_for(390)
    assert one.outcomes == [HeartbeatResponse(throttle_time_ms=number) for number in range(6)]


def test_requests_to_a_stopped_or_disconnected_broker_fail_soon() -> None:
    network, one, _ = world()
    network.cut(ONE, TWO)
    one.ask(TWO, "a")
    assert not one.outcomes, "never before ask has returned"
    network.time.run_for(100)
    network.heal()
    network.leave(TWO)
    one.ask(TWO, "b")
    network.time.run_for(100)
    assert [type(each) for each in one.outcomes] == [ConnectionLost, ConnectionLost]


def test_an_answer_that_does_not_come_ends_the_connection_with_all_that_is_on_it() -> None:
    network, one, two = world()
    one.ask(TWO, "a", timeout_ms=300)
    one.ask(TWO, "b", timeout_ms=900)
    network.time.run_for(100)
    two.answer(1)
    network.time.run_for(300)
    assert [type(each) for each in one.outcomes] == [RequestTimedOut, RequestTimedOut]
    one.ask(TWO, "c")
    network.time.run_for(100)
    two.answer(2)
    network.time.run_for(100)
    assert one.outcomes[2:] == [HeartbeatResponse()]


def test_a_request_under_way_may_be_served_after_its_sender_has_given_it_up() -> None:
    network, one, two = world()
    one.ask(TWO, "a")
    one.inter_broker_client.drop(TWO, Purpose.CONTROL)
    network.time.run_for(100)
    assert [type(each) for each in one.outcomes] == [ConnectionLost]
    assert two.names == ["a"]


def test_a_link_that_is_cut_swallows_what_is_under_way_on_it() -> None:
    network, one, two = world()
    one.ask(TWO, "a")
    network.time.run_for(50)
    network.cut_one_way(TWO, ONE)
    two.answer(0)
    network.time.run_for(500)
    assert not one.outcomes
    network.heal()
    network.time.run_for(500)
    assert [type(each) for each in one.outcomes] == [RequestTimedOut]


def test_every_request_ends_once_in_any_weather() -> None:
    network, one, two = world(Weather(loss=0.3, delay=0.3))
    for number in range(200):
        one.ask(TWO, str(number))
        network.time.run_for(20)
        while two.asked:
            two.answer(0)
            del two.asked[0]
    network.time.run_for(2_000)
    assert len(one.outcomes) == 200
    assert {type(each) for each in one.outcomes} == {
        HeartbeatResponse,
        ConnectionLost,
        RequestTimedOut,
    }


def test_a_stopped_broker_receives_no_responses() -> None:
    network, one, two = world()
    one.ask(TWO, "a")
    network.time.run_for(50)
    two.answer(0)
    network.leave(ONE)
    network.time.run_for(2_000)
    assert not one.outcomes


def test_the_records_of_a_response_are_gone_when_its_callback_has_returned() -> None:
    network, one, two = world()
    kept: list[object] = []

    def keep(response: Message) -> None:
        assert isinstance(response, FetchResponse)
        records = response.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert bytes(records) == b"batch"
        kept.append(records)

    one.inter_broker_client.send_request(
        TWO,
        FetchRequest(),
        purpose=Purpose.REPLICATION,
        timeout_ms=100,
        then=keep,
        on_error=lambda error: pytest.fail(str(error)),
    )
    network.time.run_for(20)
    partition = PartitionData(records=b"batch")
    two.asked[0][2](FetchResponse(responses=(FetchableTopicResponse(partitions=(partition,)),)))
    network.time.run_for(20)
    assert isinstance(kept[0], memoryview)
    assert bytes(kept[0]) == bytes(5)


def test_a_dispatch_serves_what_arrives() -> None:
    network, one, _ = world()
    lab = BrokerLab()
    network.leave(TWO)
    network.join(TWO, served_by(lab.dispatch))
    one.inter_broker_client.send_request(
        TWO,
        DescribeClusterRequest(),
        purpose=Purpose.TO_CONTROLLER,
        timeout_ms=100,
        then=one.outcomes.append,
        on_error=one.outcomes.append,
    )
    network.time.run_for(50)
    (answer,) = one.outcomes
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.cluster_id == lab.broker.image.cluster_id
