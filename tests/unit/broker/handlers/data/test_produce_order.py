"""Batches of one connection stay in order, however its Produce requests are processed.

Real connections with a fair queue in front of a whole broker. Requests are large or small, some
batches are validated or flushed on a thread, transactions are verified late, and connections close
at any time. Producers are idempotent: the broker itself reports a batch out of order.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from headwater.broker.handlers.data import large_produce
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata.internal_topics import TRANSACTION_STATE
from headwater.network.connection import Connection
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, write
from headwater.protocol.headers import read_correlation_id, request_frame, response_body_position
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import read_header
from headwater.records.record import Record
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer
from tests.simulation.labs.broker_lab import START_MS, BrokerLab
from tests.simulation.labs.connection_lab import ConnectionLab
from tests.simulation.labs.transaction_client import LabProducer

VERSION = 12
# Requests with more elements are processed in steps.
WHOLE = 12
TOPICS = {"plain": 20, "zipped": 8, "flushed": 4}


class BusyLab(ConnectionLab):
    """A broker behind connections, on a clock that advances with every look at it."""

    def __init__(self, rng: random.Random, *, most_tick_ns: int = 400_000) -> None:
        self._rng = rng
        self._most_tick_ns = most_tick_ns
        self._now_ns = 0
        self.executor = HeldExecutor(rng)
        self.broker = BrokerLab(
            {"transaction.state.log.num.partitions": "3"}, executor=self.executor
        )
        self.broker.dispatch._whole_produce_elements = WHOLE
        configs = {"zipped": {"compression.type": "gzip"}, "flushed": {"flush.messages": "1"}}
        for name, count in TOPICS.items():
            self.broker.create(name, count, dict(configs.get(name, {})))
        super().__init__(behave=self.broker.dispatch.serve)

    @property
    def now_ns(self) -> int:
        self._now_ns += self._rng.randint(0, self._most_tick_ns)
        return self._now_ns

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self._now_ns = now_ns

    def act(self) -> None:
        """Let a little happen."""
        match self._rng.randrange(4):
            case 0:
                self.executor.step()
            case 1:
                self.broker.turn()
            case _:
                self.loop.turn()

    def settle(self) -> None:
        for _ in range(500):
            self.loop.turn()
            self.broker.turn()
            self.executor.finish()

    def sequences(self, name: str, partition: int) -> dict[int, list[int]]:
        """The base sequences of a partition's batches in offset order, by producer."""
        wanted = FetchPartition(partition=partition, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_bytes=1 << 24, topics=(FetchTopic(topic=name, partitions=(wanted,)),)
        )
        sent = self.broker.send(request, VERSION)
        self.executor.finish()
        ((found,),) = (each.partitions for each in sent.answer(FetchResponse).responses)
        assert isinstance(found.records, memoryview | bytes | bytearray)
        log = memoryview(found.records)
        sequences: dict[int, list[int]] = {}
        while log:
            header = read_header(log)
            if not header.is_control:
                sequences.setdefault(header.producer_id, []).append(header.base_sequence)
            log = log[header.size_bytes :]
        return sequences


def frame_of(request: ProduceRequest, correlation_id: int = 0) -> bytes:
    body = write(request, VERSION)
    frame = bytearray()
    for part in request_frame(APIS[ApiKey.PRODUCE], VERSION, correlation_id, "lab", body):
        assert isinstance(part, memoryview | bytes | bytearray)
        frame += part
    return bytes(frame)


@dataclass(slots=True)
class Pipeline:
    """A producer that pipelines requests on one connection."""

    connection: Connection
    channel: ScriptedTransportLayer
    producer_id: int
    epoch: int = 0
    transactional_id: str | None = None
    sent: list[tuple[int, ProduceRequest]] = field(default_factory=list)
    next_sequences: Counter[tuple[str, int]] = field(default_factory=Counter)

    def send(self, rng: random.Random, acks: int) -> None:
        """One batch for each of some partitions."""
        topics = []
        for name in rng.sample(sorted(TOPICS), rng.randint(1, len(TOPICS))):
            some = rng.sample(range(TOPICS[name]), rng.randint(1, TOPICS[name]))
            data = tuple(
                PartitionProduceData(index=index, records=self._batch(name, index))
                for index in some
            )
            topics.append(TopicProduceData(name=name, partition_data=data))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=60_000,
            topic_data=tuple(topics),
        )
        correlation_id = len(self.sent)
        self.channel.feed(frame_of(request, correlation_id))
        self.sent.append((correlation_id, request))

    def _batch(self, name: str, index: int) -> memoryview:
        sequence = self.next_sequences[name, index]
        self.next_sequences[name, index] += 1
        batch = build_batch(
            [Record(value=b"v" * 20, timestamp=START_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )
        return memoryview(batch)

    def check_responses(self, *, is_complete: bool) -> None:
        """Responses are in order, each with all partitions in request order and no error."""
        rest = memoryview(bytes(self.channel.sent))
        expected = [each for each in self.sent if each[1].acks != 0]
        answered = 0
        while rest:
            size = int.from_bytes(rest[:4], "big")
            frame, rest = rest[4 : 4 + size], rest[4 + size :]
            correlation_id, request = expected[answered]
            answered += 1
            assert read_correlation_id(frame) == correlation_id
            position = response_body_position(APIS[ApiKey.PRODUCE], VERSION, frame)
            response = read(ProduceResponse, VERSION, frame[position:])
            found = [
                (topic.name, each.index, each.error_code)
                for topic in response.responses
                for each in topic.partition_responses
            ]
            assert found == [
                (topic.name, each.index, ErrorCode.NONE)
                for topic in request.topic_data
                for each in topic.partition_data
            ]
        if is_complete:
            assert answered == len(expected)


def check_logs(lab: BusyLab, pipelines: list[Pipeline], closed: set[int]) -> None:
    for name, count in TOPICS.items():
        for index in range(count):
            found = lab.sequences(name, index)
            for each in pipelines:
                sent = each.next_sequences[name, index]
                sequences = found.get(each.producer_id, [])
                assert sequences == list(range(len(sequences)))
                if each.producer_id not in closed:
                    assert len(sequences) == sent


@pytest.mark.parametrize("seed", range(25))
def test_pipelined_requests_are_appended_in_order(seed: int) -> None:
    rng = random.Random(seed)
    lab = BusyLab(rng)
    pipelines = [Pipeline(*lab.connect(), producer_id) for producer_id in range(1_000, 1_003)]
    closed: set[int] = set()
    for _ in range(60):
        if rng.random() < 0.25:
            open_ones = [each for each in pipelines if each.producer_id not in closed]
            rng.choice(open_ones).send(rng, rng.choice([0, 1, 1, -1]))
        lab.act()
    if rng.random() < 0.5:
        victim = rng.choice(pipelines)
        closed.add(victim.producer_id)
        victim.connection.close()
    lab.settle()
    assert lab.failures == []
    for each in pipelines:
        each.check_responses(is_complete=each.producer_id not in closed)
    check_logs(lab, pipelines, closed)


@pytest.mark.parametrize("seed", range(15))
def test_pipelined_transactional_requests_are_appended_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verifications come late, for some partitions at a time."""
    rng = random.Random(seed)
    monkeypatch.setattr(large_produce, "_VERIFIED_PARTITIONS", rng.randint(1, 10))
    monkeypatch.setattr(large_produce, "STEP_PARTITIONS", rng.randint(1, 10))
    lab = BusyLab(rng)
    pipelines = []
    for name in ("x", "y"):
        producer = LabProducer(lab.broker, name)
        assert producer.begin() is ErrorCode.NONE
        pipelines.append(Pipeline(*lab.connect(), producer.producer_id, producer.epoch, name))
    late = ConfigResource(ResourceType.TOPIC, TRANSACTION_STATE)
    lab.broker.change(ConfigsReplaced(late, {"flush.messages": "1"}))
    for _ in range(50):
        if rng.random() < 0.3:
            rng.choice(pipelines).send(rng, -1)
        lab.act()
    lab.settle()
    assert lab.failures == []
    for each in pipelines:
        each.check_responses(is_complete=True)
    check_logs(lab, pipelines, set())


def test_small_request_is_answered_between_the_steps_of_a_large_one() -> None:
    lab = BusyLab(random.Random(1), most_tick_ns=2_000_000)
    lab.broker.create("many", 150)
    attacker = Pipeline(*lab.connect(), 1)
    honest = Pipeline(*lab.connect(), 2)
    batch = build_batch([Record(value=b"v", timestamp=START_MS)])
    data = tuple(
        PartitionProduceData(index=index, records=memoryview(batch)) for index in range(150)
    )
    large = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="many", partition_data=data),))
    attacker.channel.feed(frame_of(large))

    def appended() -> int:
        found = lab.broker.broker.partitions.by_name("many") or {}
        return sum(each.log is not None and each.log.end_offset for each in found.values())

    while not appended():
        lab.loop.turn()
    assert not attacker.channel.sent
    small = ProduceRequest(
        acks=1,
        topic_data=(TopicProduceData(name="plain", partition_data=data[:1]),),
    )
    honest.channel.feed(frame_of(small))
    while not honest.channel.sent:
        assert not attacker.channel.sent, "the large request was finished first"
        lab.loop.turn()
    assert appended() < 150
