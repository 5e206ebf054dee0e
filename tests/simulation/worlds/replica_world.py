"""Brokers of one topic, their network and their controller."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from headwater.common.ids import NodeId
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
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
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.fakes.fake_network import FakeNetwork
from tests.simulation.fakes.scripted_controller import TOPIC_ID, ScriptedController
from tests.simulation.fakes.virtual_time import CALM, VirtualTime, Weather
from tests.simulation.labs.broker_lab import Sent
from tests.simulation.worlds.replica_nodes import TOPIC, ReplicaNode

NO_LIMIT: Final = 1 << 20
SETTINGS: Final = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "1000",
}


class ReplicaWorld:
    """All brokers run, and the first one leads the first partition."""

    def __init__(
        self,
        seed: int = 1,
        *,
        brokers: int = 3,
        texts: Mapping[str, str] | None = None,
        configs: Mapping[str, str] | None = None,
        racks: Mapping[NodeId, str] | None = None,
        weather: Weather = CALM,
        spares: int = 0,
        partitions: int = 1,
    ) -> None:
        """`spares` are brokers without replicas."""
        self.partitions = partitions
        self.time = VirtualTime(random.Random(seed), weather=weather)
        self.network = FakeNetwork(self.time)
        ids = [NodeId(number) for number in range(brokers)]
        self.controller = ScriptedController(
            self.time,
            self.network,
            replicas=ids,
            configs=configs or {},
            racks=racks,
            partitions=partitions,
        )
        settings = {**SETTINGS, **(texts or {})}
        self.nodes = [
            ReplicaNode(NodeId(number), self.time, self.network, settings)
            for number in range(brokers + spares)
        ]
        for node in self.nodes:
            self.controller.start(node)

    @property
    def leader(self) -> ReplicaNode:
        return self.nodes[self.controller.state.leader]

    def run(self, span_ms: int) -> None:
        self.time.run_for(span_ms)

    def produce(
        self,
        value: bytes,
        *,
        to: ReplicaNode | None = None,
        acks: int = -1,
        timeout_ms: int = 1_000,
        number: int = 0,
    ) -> Sent:
        """Send one batch of one record; the response may come later."""
        record = Record(key=None, value=value, timestamp=self.time.now_ms)
        data = PartitionProduceData(index=number, records=memoryview(build_batch([record])))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=(TopicProduceData(topic_id=TOPIC_ID, partition_data=(data,)),),
        )
        return (to or self.leader).send(request, 13)

    def fetch(
        self, node: ReplicaNode, offset: int, *, rack: str = "", number: int = 0
    ) -> PartitionData:
        """What a consumer gets at once."""
        asked = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=NO_LIMIT)
        request = FetchRequest(
            max_wait_ms=0,
            rack_id=rack,
            topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(asked,)),),
        )
        sent = node.send(request)
        ((data,),) = (topic.partitions for topic in sent.answer(FetchResponse).responses)
        return data


def outcome(sent: Sent) -> PartitionProduceResponse:
    ((answer,),) = (topic.partition_responses for topic in sent.answer(ProduceResponse).responses)
    return answer


def content(node: ReplicaNode, number: int = 0) -> bytes:
    """All bytes of a broker's log."""
    log = node.hosted_at(number).open_log()
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        read = log.read(offset, max_bytes=NO_LIMIT, bound=ReadBound.LOG_END).range
        assert read is not None
        found += read.read()
        offset = log.end_offset
    return found


__all__ = ["TOPIC", "ReplicaWorld", "content", "outcome"]
