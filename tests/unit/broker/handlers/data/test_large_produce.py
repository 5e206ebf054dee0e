"""A Produce of many partitions or bytes is appended in steps, between which others are served."""

import random
from collections.abc import Callable, Iterable

import pytest

from headwater.broker.handlers.data import large_produce
from headwater.broker.handlers.data.large_produce import (
    STEP_PARTITIONS,
    WHOLE_BYTES,
    WHOLE_ELEMENTS,
)
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import NodeId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import ConfigsReplaced, PartitionChanged
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata.config_entities import resource_of
from headwater.metadata.internal_topics import TRANSACTION_STATE
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.partition import Partition
from headwater.security.authorization.authorizer import Operation
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from headwater.storage.io.executor import Executor
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import START_MS, BrokerLab, Peer, Refusing
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab, MemberNode
from tests.simulation.labs.transaction_client import LabProducer, codes, results

# Most tests are about fewer partitions than `WHOLE_ELEMENTS`, to be quick.
WHOLE = 50
COUNT = 100
NAMES_UP_TO = 12
BATCH = build_batch([Record(key=b"k", value=b"v", timestamp=START_MS)])
TRANSACTIONAL = build_batch(
    [Record(value=b"v", timestamp=START_MS)],
    producer_id=7,
    producer_epoch=0,
    base_sequence=0,
    is_transactional=True,
)


def of_topic(name: str, indexes: Iterable[int], batch: bytes = BATCH) -> TopicProduceData:
    return TopicProduceData(
        name=name,
        partition_data=tuple(
            PartitionProduceData(index=index, records=memoryview(bytearray(batch)))
            for index in indexes
        ),
    )


def request(*topics: TopicProduceData, acks: int = 1, timeout_ms: int = 1_000) -> ProduceRequest:
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def new_lab(
    executor: Executor | None = None, authorizer: Refusing | None = None, **configs: str
) -> BrokerLab:
    lab = BrokerLab(executor=executor, authorizer=authorizer)
    lab.dispatch._whole_produce_elements = WHOLE
    lab.create("t", COUNT, {name.replace("_", "."): value for name, value in configs.items()})
    lab.create("other")
    return lab


def halted() -> Peer:
    """A connection whose steps the test takes."""
    peer = Peer()
    peer.takes_steps = False
    return peer


def partitions(lab: BrokerLab, name: str = "t") -> list[Partition]:
    return list((lab.broker.partitions.by_name(name) or {}).values())


def end_offsets(lab: BrokerLab, name: str = "t") -> list[int]:
    return [0 if each.log is None else each.log.end_offset for each in partitions(lab, name)]


def until(condition: Callable[[], bool], peer: Peer) -> None:
    for _ in range(10_000):
        if condition():
            return
        next(peer.steps, None)
    raise AssertionError("the steps have no such effect")


def test_no_step_appends_more_than_a_few_batches_and_others_are_served_in_between() -> None:
    count = WHOLE_ELEMENTS + 20
    lab = BrokerLab()
    lab.create("t", count)
    lab.create("other")
    peer = halted()
    sent = lab.send(request(of_topic("t", range(count))), NAMES_UP_TO, peer)
    assert sent.is_held
    most, others = 0, 0
    while not sent.is_answered:
        before = sum(end_offsets(lab))
        assert next(peer.steps, None) is None
        most = max(most, sum(end_offsets(lab)) - before)
        assert lab.produce("other", b"x") == others
        others += 1
    assert 0 < most <= STEP_PARTITIONS
    assert results(sent) == [
        PartitionProduceResponse(index=index, log_start_offset=0) for index in range(count)
    ]
    assert end_offsets(lab) == [1] * count


def test_usual_request_takes_no_steps_and_holds_up_no_other() -> None:
    count = WHOLE_ELEMENTS - 1
    held = HeldExecutor(random.Random(5))
    lab = BrokerLab(executor=held)
    lab.create("t", count)
    lab.create("flushed", configs={"flush.messages": "1"})
    peer = halted()
    sent = lab.send(request(of_topic("t", range(count))), NAMES_UP_TO, peer)
    assert codes(sent) == [ErrorCode.NONE] * count
    topics = of_topic("flushed", [0]), of_topic("t", range(10))
    sent = lab.send(request(*topics), NAMES_UP_TO, peer)
    assert not sent.is_answered
    assert not sent.is_held
    held.finish()
    assert codes(sent) == [ErrorCode.NONE] * 11


def test_large_batches_of_few_partitions_are_appended_in_steps() -> None:
    lab = new_lab()
    batch = build_batch([Record(value=bytes(700_000), timestamp=START_MS)])
    count = WHOLE_BYTES // len(batch) + 1
    peer = halted()
    sent = lab.send(request(of_topic("t", range(count), batch)), NAMES_UP_TO, peer)
    while not sent.is_answered:
        before = sum(end_offsets(lab))
        assert next(peer.steps, None) is None
        assert sum(end_offsets(lab)) - before <= 2
    assert codes(sent) == [ErrorCode.NONE] * count
    alone = build_batch([Record(value=bytes(1_000_000), timestamp=START_MS)])
    sent = lab.send(request(of_topic("other", [0], alone)), NAMES_UP_TO)
    assert sent.peer.steps_taken == 0


@pytest.mark.parametrize("seed", range(20))
def test_steps_give_the_response_of_one_piece(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the topics and batches are, and wherever a step ends."""
    rng = random.Random(seed)
    for name in ("STEP_PARTITIONS", "_STEP_RESPONSES", "_STEP_CHECKS"):
        monkeypatch.setattr(large_produce, name, rng.randint(1, 4))
    lab, stepwise = (_mixed_lab() for _ in range(2))
    stepwise.dispatch._whole_produce_elements = 0
    steps_taken = 0
    for _ in range(5):
        sent = _mixed_request(rng)
        version = rng.choice([7, 9, 11, NAMES_UP_TO])
        expected, given = lab.send(sent, version), stepwise.send(sent, version)
        steps_taken += given.peer.steps_taken
        assert given.answer(ProduceResponse) == expected.answer(ProduceResponse)
        for name in ("a", "b", "zipped", "denied"):
            assert end_offsets(lab, name) == end_offsets(stepwise, name)
    assert steps_taken
    counted = [each.dispatch.counters[sent.api].errors for each in (lab, stepwise)]
    assert counted[0] == counted[1]


def _mixed_lab() -> BrokerLab:
    lab = BrokerLab(authorizer=Refusing(Operation.WRITE, names=["denied"]))
    for name in ("a", "b", "denied"):
        lab.create(name, 40)
    lab.create("zipped", 40, {"compression.type": "gzip"})
    (hosted,) = [each for each in partitions(lab, "b") if each.name.partition == 3]
    lab.change(PartitionChanged("b", 3, led_by(hosted.state, NodeId(7), hosted.state.isr)))
    # Creates an internal topic.
    lab.ask(FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
    return lab


def _mixed_request(rng: random.Random) -> ProduceRequest:
    names = ["a", "b", "zipped", "denied", "unknown", "__consumer_offsets", "a"]
    corrupt = bytearray(BATCH)
    corrupt[-1] ^= 1
    topics = []
    for _ in range(rng.randint(1, 8)):
        batch = rng.choice([BATCH, BATCH, bytes(corrupt), b"", BATCH[:20]])
        indexes = [rng.randint(0, 45) for _ in range(rng.choice([0, 1, 5, 20]))]
        topics.append(of_topic(rng.choice(names), indexes, batch))
    return request(*topics, acks=rng.choice([1, 1, -1, 2]))


def test_acks_0_is_silent_and_an_error_closes_the_connection_after_all_appends() -> None:
    lab = new_lab()
    sent = lab.send(request(of_topic("t", range(COUNT)), acks=0), NAMES_UP_TO)
    assert sent.was_silent
    assert not sent.peer.is_closed
    sent = lab.send(request(of_topic("gone", [0]), of_topic("t", range(COUNT)), acks=0), 12)
    assert sent.peer.is_closed
    assert end_offsets(lab) == [2] * COUNT


def test_partition_that_gets_another_leader_between_two_steps_is_refused() -> None:
    lab = new_lab()
    peer = halted()
    sent = lab.send(request(of_topic("t", range(COUNT))), NAMES_UP_TO, peer)
    until(lambda: sum(end_offsets(lab)) >= STEP_PARTITIONS, peer)
    appended = sum(end_offsets(lab))
    for each in (partitions(lab)[0], partitions(lab)[COUNT - 1]):
        elsewhere = led_by(each.state, NodeId(7), each.state.isr)
        lab.change(PartitionChanged("t", each.name.partition, elsewhere))
    until(lambda: sent.is_answered, peer)
    assert appended < COUNT
    assert codes(sent) == [ErrorCode.NONE] * (COUNT - 1) + [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    last = results(sent)[-1]
    assert (last.current_leader.leader_id, last.base_offset) == (7, -1)
    assert end_offsets(lab) == [1] * (COUNT - 1) + [0]


@pytest.mark.parametrize("version", [9, 13])
def test_topic_that_is_created_again_between_two_steps(version: int) -> None:
    """By name the rest is appended to the new topic, as in a later request; its id is gone."""
    lab = new_lab()
    peer = halted()
    data = of_topic("t", range(COUNT))
    if version >= 13:
        old_id = lab.broker.image.topics["t"].topic_id
        data = TopicProduceData(topic_id=old_id, partition_data=data.partition_data)
    sent = lab.send(request(data), version, peer)
    until(lambda: sum(end_offsets(lab)) >= STEP_PARTITIONS, peer)
    appended = sum(end_offsets(lab))
    lab.send(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000))
    lab.turn()
    lab.create("t", COUNT)
    until(lambda: sent.is_answered, peer)
    code = ErrorCode.NONE if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert codes(sent) == [ErrorCode.NONE] * appended + [code] * (COUNT - appended)
    assert sum(end_offsets(lab)) == (COUNT - appended if version < 13 else 0)


def test_connection_that_closes_between_two_steps_ends_the_request() -> None:
    lab = new_lab()
    peer = halted()
    sent = lab.send(request(of_topic("t", range(COUNT))), NAMES_UP_TO, peer)
    until(lambda: sum(end_offsets(lab)) >= STEP_PARTITIONS, peer)
    appended = sum(end_offsets(lab))
    peer.is_closed = True
    peer.steps = iter(())
    assert not sent.is_answered
    assert sum(end_offsets(lab)) == appended
    assert lab.produce("t", b"next", partition=COUNT - 1) == 0


def test_batches_that_a_thread_validates_are_answered_with_the_others() -> None:
    held = HeldExecutor(random.Random(5))
    lab = new_lab(held, compression_type="gzip")
    lab.create("plain", COUNT)
    topics = of_topic("t", range(30)), of_topic("plain", range(COUNT)), of_topic("t", range(30, 60))
    peer = halted()
    sent = lab.send(request(*topics), NAMES_UP_TO, peer)
    first = lab.send(request(of_topic("t", [0])), NAMES_UP_TO)
    for number in range(1_000):
        next(peer.steps, None)
        if number % 3 == 0:
            held.step()
    assert sum(end_offsets(lab, "plain")) == COUNT
    held.finish()
    until(lambda: sent.is_answered, peer)
    assert codes(sent) == [ErrorCode.NONE] * (COUNT + 60)
    assert [each.index for each in results(sent)] == [*range(30), *range(COUNT), *range(30, 60)]
    assert codes(first) == [ErrorCode.NONE]


def test_failed_flushes_are_errors_of_their_partitions() -> None:
    held = HeldExecutor(random.Random(5))
    lab = new_lab(held, flush_messages="1")
    sent = lab.send(request(of_topic("t", range(COUNT))), NAMES_UP_TO)
    assert not sent.is_answered
    lab.disk.fail_next_sync("*/t-7/*.log")
    held.finish()
    assert codes(sent)[7] is ErrorCode.KAFKA_STORAGE_ERROR
    # Its directory goes offline, so that later flushes fail too.
    assert set(codes(sent)) == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}


def test_unexpected_error_in_a_step_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = new_lab()

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(large_produce, "put_batch", fail)
    sent = lab.send(request(of_topic("t", range(COUNT))), NAMES_UP_TO)
    assert codes(sent) == [ErrorCode.UNKNOWN_SERVER_ERROR] * COUNT
    with pytest.raises(ProtocolError, match="acks=0 failed: UNKNOWN_SERVER_ERROR"):
        lab.send(request(of_topic("t", range(COUNT)), acks=0), NAMES_UP_TO)


def test_quota_is_charged_for_a_large_request() -> None:
    lab = new_lab()
    entity = QuotaEntity(user=None, client_id=DEFAULT)
    lab.change(ConfigsReplaced(resource_of(entity), {"producer_byte_rate": "1"}))
    sent = lab.send(request(of_topic("t", range(COUNT))), NAMES_UP_TO)
    assert sent.answer(ProduceResponse).throttle_time_ms > 0
    assert sent.peer.muted_until_ms is not None


# Transactions.


def test_transactional_batch_without_transactional_id_fails_the_whole_request() -> None:
    """PV-8: before anything is appended, wherever it is."""
    lab = new_lab()
    topics = of_topic("t", range(COUNT)), of_topic("other", [0], TRANSACTIONAL)
    sent = lab.send(request(*topics), NAMES_UP_TO)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(sent) == [code] * (COUNT + 1)
    assert sum(end_offsets(lab)) == 0
    with pytest.raises(ProtocolError, match="acks=0 failed"):
        lab.send(request(*topics, acks=0), NAMES_UP_TO)


def transactional_lab(executor: Executor | None = None) -> tuple[BrokerLab, LabProducer]:
    lab = new_lab(executor)
    producer = LabProducer(lab)
    assert producer.begin() is ErrorCode.NONE
    return lab, producer


def test_batches_of_different_producers_fail_the_whole_request() -> None:
    lab, producer = transactional_lab()
    sent = ProduceRequest(
        transactional_id=producer.name,
        acks=-1,
        topic_data=(
            of_topic("t", range(COUNT), bytes(producer.batch(b"v", 0))),
            of_topic("other", [0], TRANSACTIONAL),
        ),
    )
    assert codes(lab.send(sent, 12)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * (COUNT + 1)
    assert sum(end_offsets(lab)) == 0


def test_transaction_is_verified_for_some_partitions_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_produce, "_VERIFIED_PARTITIONS", 2 * STEP_PARTITIONS)
    held = HeldExecutor(random.Random(4))
    lab, producer = transactional_lab(held)
    lab.change(ConfigsReplaced(resource_of_topic(TRANSACTION_STATE), {"flush.messages": "1"}))
    sent = producer.send("t", 0, partitions=tuple(range(COUNT)))
    pending = []
    while not sent.is_answered:
        assert sent.peer.kept_frames
        pending.append(len(lab.broker.add_partitions_to_txn_manager.pending))
        assert held.step()
    assert 2 * STEP_PARTITIONS <= max(pending) < 3 * STEP_PARTITIONS
    assert codes(sent) == [ErrorCode.NONE] * COUNT
    again = producer.send("t", 1, partitions=tuple(range(COUNT)))
    assert codes(again) == [ErrorCode.NONE] * COUNT
    assert end_offsets(lab) == [2] * COUNT


def test_connection_that_closes_during_a_verification_ends_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_produce, "_VERIFIED_PARTITIONS", 2 * STEP_PARTITIONS)
    held = HeldExecutor(random.Random(4))
    lab, producer = transactional_lab(held)
    lab.change(ConfigsReplaced(resource_of_topic(TRANSACTION_STATE), {"flush.messages": "1"}))
    sent = producer.send("t", 0, partitions=tuple(range(COUNT)))
    pending = len(lab.broker.add_partitions_to_txn_manager.pending)
    assert 2 * STEP_PARTITIONS <= pending < COUNT
    sent.peer.is_closed = True
    held.finish()
    assert not sent.is_answered
    assert sum(end_offsets(lab)) == pending
    assert len(lab.broker.add_partitions_to_txn_manager.pending) == 0


def resource_of_topic(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


# With replicas.


def replicated() -> tuple[ClusterNodeLab, MemberNode]:
    """Two brokers, and the leader of all partitions of a topic."""
    lab = ClusterNodeLab(2)
    leader = lab.nodes[0]
    leader.dispatch._whole_produce_elements = WHOLE
    created = topic("t", assignment=dict.fromkeys(range(COUNT), (0, 1)))
    asked = CreateTopicsRequest(topics=(created,), timeout_ms=60_000)
    (result,) = lab.controller.ask(asked, CreateTopicsResponse).topics
    assert not result.error_code, result
    lab.run(2_000)
    return lab, leader


def every_partition(leader: MemberNode) -> TopicProduceData:
    records = [Record(value=b"v", timestamp=leader.clock.now_ms())]
    return of_topic("t", range(COUNT), build_batch(records))


def waiting_count(leader: MemberNode) -> int:
    found = leader.broker.partitions.by_name("t") or {}
    return sum(
        len(each.leader_state.delayed_produces)
        for each in found.values()
        if each.leader_state is not None
    )


def test_acks_all_waits_for_replicas_and_its_timeout_starts_after_the_last_append() -> None:
    lab, leader = replicated()
    lab.network.isolate(NodeId(1))
    peer = halted()
    sent = leader.send(request(every_partition(leader), acks=-1, timeout_ms=300), NAMES_UP_TO, peer)
    before = len(leader.timer)
    until(lambda: waiting_count(leader) >= STEP_PARTITIONS, peer)
    assert waiting_count(leader) < COUNT
    assert len(leader.timer) == before
    # Longer than the timeout: the request has not been appended yet.
    lab.run(400)
    assert waiting_count(leader) >= STEP_PARTITIONS
    before = len(leader.timer)
    until(lambda: waiting_count(leader) == COUNT, peer)
    for _ in range(10):
        next(peer.steps, None)
    assert len(leader.timer) == before + 1
    assert sent.is_held
    lab.run(200)
    assert waiting_count(leader) == COUNT
    lab.run(200)
    assert waiting_count(leader) == 0
    until(lambda: sent.is_answered, peer)
    assert codes(sent) == [ErrorCode.REQUEST_TIMED_OUT] * COUNT
    assert [each.base_offset for each in results(sent)] == [0] * COUNT


def test_acks_all_is_answered_when_the_followers_have_fetched() -> None:
    lab, leader = replicated()
    peer = halted()
    sent = leader.send(request(every_partition(leader), acks=-1), NAMES_UP_TO, peer)
    # Followers fetch the first batches while the last ones are not appended yet.
    until(lambda: waiting_count(leader) >= STEP_PARTITIONS, peer)
    lab.run(100)
    assert waiting_count(leader) == 0
    assert not sent.is_answered
    for _ in range(1_000):
        next(peer.steps, None)
    lab.run(1_000)
    until(lambda: sent.is_answered, peer)
    assert codes(sent) == [ErrorCode.NONE] * COUNT
    assert waiting_count(leader) == 0
    unfinished = [task for _, _, task in leader.timer._heap if not task.is_done]
    assert len(leader.timer) == len(unfinished)


def test_connection_that_closes_between_two_steps_leaves_no_delayed_produce() -> None:
    lab, leader = replicated()
    lab.network.isolate(NodeId(1))
    peer = halted()
    leader.send(request(every_partition(leader), acks=-1), NAMES_UP_TO, peer)
    before = len(leader.timer)
    until(lambda: waiting_count(leader) >= STEP_PARTITIONS, peer)
    peer.is_closed = True
    peer.steps = iter(())
    assert waiting_count(leader) == 0
    assert len(leader.timer) == before


def test_leader_that_resigns_between_two_steps_fails_what_it_has_appended() -> None:
    lab, leader = replicated()
    lab.network.isolate(NodeId(1))
    peer = halted()
    sent = leader.send(request(every_partition(leader), acks=-1), NAMES_UP_TO, peer)
    until(lambda: waiting_count(leader) >= STEP_PARTITIONS, peer)
    appended = waiting_count(leader)
    for hosted in (leader.broker.partitions.by_name("t") or {}).values():
        hosted.update_state(led_by(hosted.state, NodeId(1), hosted.state.isr))
    until(lambda: sent.is_answered, peer)
    assert codes(sent) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * COUNT
    offsets = [each.base_offset for each in results(sent)]
    assert offsets == [0] * appended + [-1] * (COUNT - appended)
