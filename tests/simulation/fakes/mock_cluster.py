"""A cluster of scripted brokers with topics in memory, for tests of clients.

    with MockCluster(topics={"tea": 2}) as cluster:
        cluster.script(ApiKey.PRODUCE, HangUp(), HangUp(is_done=True))
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)

It stores what was produced, and checks the sequences of idempotent producers. Add other APIs to
`handlers`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_PRODUCER, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_versions_response import Feature
from headwater.protocol.messages import find_coordinator, init_producer_id, metadata, produce
from headwater.protocol.older_versions import Message
from headwater.records.batch_header import BatchHeader, read_header, sequence_after
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.simulation.fakes.mock_broker import BackgroundLoop, Fate, Handler, MockBroker
from tests.simulation.fakes.mock_transactions import MockTransactions

_RECENT = 5


@dataclass(slots=True)
class _ProducerEntry:
    """A partition's state of a producer: its epoch and its last batches."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class MockPartition:
    """A log in memory."""

    leader_id: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    end_offset: int = 0
    producers: dict[int, _ProducerEntry] = field(default_factory=dict)
    max_message_bytes: int = 1_048_588

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        """Validate a batch as Kafka does; return its base offset."""
        header = read_header(batch)
        if len(batch) > self.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.producer_id != NO_PRODUCER:
            error, known = self._judge(header)
            if error or known >= 0:
                return error, known
        base = self.end_offset
        self.batches.append(batch)
        self.headers.append(header)
        self.end_offset += header.record_count
        if header.producer_id != NO_PRODUCER:
            entry = self.producers[header.producer_id]
            last = sequence_after(header.base_sequence, header.record_count - 1)
            entry.batches.append((header.base_sequence, last, base))
            del entry.batches[:-_RECENT]
        return ErrorCode.NONE, base

    def _judge(self, header: BatchHeader) -> tuple[ErrorCode, int]:
        entry = self.producers.get(header.producer_id)
        if entry is None or header.producer_epoch > entry.epoch:
            if entry is not None and header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[header.producer_id] = _ProducerEntry(header.producer_epoch)
            return ErrorCode.NONE, -1
        if header.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        last = sequence_after(header.base_sequence, header.record_count - 1)
        for first, end, base in entry.batches:
            if (first, end) == (header.base_sequence, last):
                return ErrorCode.NONE, base
        following = sequence_after(entry.batches[-1][1], 1) if entry.batches else 0
        if header.base_sequence != following:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, -1

    @property
    def records(self) -> list[Record]:
        """All records in order, with offsets counted within their batches only."""
        return [
            record
            for batch, header in zip(self.batches, self.headers, strict=True)
            for record in read_records(batch, header)
        ]


class MockCluster:
    """Brokers 0 to `nodes` - 1. Leaders are spread over them in turn."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        features: Mapping[str, int] | None = None,
        creates_topics: bool = False,
    ) -> None:
        self.topics: dict[str, list[MockPartition]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.handlers: dict[ApiKey, Handler] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.PRODUCE: self._produce,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
        }
        self.transactions = MockTransactions(self.handlers, self._new_producer_id)
        self._creates_topics = creates_topics
        self._next_producer_id = 1000
        known = [
            Feature(name=name, lowest=0, highest=level, finalized=level)
            for name, level in (features or {}).items()
        ]
        self.brokers = [MockBroker(node_id, self.handlers, known) for node_id in range(nodes)]
        self.coordinator_id = 0
        self.controller_id = 0
        self._loop = BackgroundLoop()
        for name, count in (topics or {}).items():
            self.create_topic(name, count)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def __enter__(self) -> Self:
        for broker in self.brokers:
            self._loop.do(broker.start())
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            self._loop.do(broker.stop())
        self._loop.close()

    def create_topic(self, name: str, partitions: int) -> None:
        self.topics[name] = [
            MockPartition(leader_id=index % len(self.brokers)) for index in range(partitions)
        ]
        self.topic_ids[name] = TopicId(len(self.topic_ids).to_bytes(15, "big") + b"t")

    def script(self, api: ApiKey, *fates: Fate, node_id: int = 0) -> None:
        self.brokers[node_id].script(api, *fates)

    def requests(self, api: ApiKey) -> list[Any]:
        """The requests of an API at all brokers."""
        return [message for broker in self.brokers for message in broker.requests(api)]

    def stop(self, node_id: int) -> None:
        self._loop.do(self.brokers[node_id].stop())

    def start(self, node_id: int) -> None:
        self._loop.do(self.brokers[node_id].start())

    def hang_up(self, node_id: int = 0) -> None:
        """Close all connections of a broker, which continues."""

        async def cut() -> None:
            self.brokers[node_id].hang_up()

        self._loop.do(cut())

    def on_loop(self, work: Callable[[], None]) -> None:
        """Change something while no request is being answered."""

        async def run() -> None:
            work()

        self._loop.do(run())

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        moved = self.topics[topic][partition]
        moved.leader_id = node_id
        moved.leader_epoch += 1

    # Normal responses.

    def _metadata(
        self, broker: MockBroker, request: metadata.MetadataRequest, version: int
    ) -> Message:
        del broker, version
        if request.topics is None:
            names = list(self.topics)
        else:
            names = [each.name or self._name(each.topic_id) for each in request.topics]
        if self._creates_topics and request.allow_auto_topic_creation:
            for name in set(names) - set(self.topics):
                self.create_topic(name, 1)
        return metadata.MetadataResponse(
            cluster_id="mock",
            controller_id=self.controller_id,
            brokers=tuple(
                metadata.MetadataResponseBroker(
                    node_id=each.node_id, host="127.0.0.1", port=each.port
                )
                for each in self.brokers
            ),
            topics=tuple(self._topic(name) for name in names),
        )

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        if name not in self.topics:
            return metadata.MetadataResponseTopic(
                name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        return metadata.MetadataResponseTopic(
            name=name,
            topic_id=self.topic_ids[name],
            partitions=tuple(
                metadata.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=each.leader_id,
                    leader_epoch=each.leader_epoch,
                    replica_nodes=(each.leader_id,),
                    isr_nodes=(each.leader_id,),
                )
                for index, each in enumerate(self.topics[name])
            ),
        )

    def _name(self, topic_id: TopicId) -> str:
        return next((name for name, own in self.topic_ids.items() if own == topic_id), "")

    def _produce(
        self, broker: MockBroker, request: produce.ProduceRequest, version: int
    ) -> Message | None:
        del version
        answers = []
        for topic in request.topic_data:
            name = topic.name or self._name(topic.topic_id)
            answers.append(
                produce.TopicProduceResponse(
                    name=name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(
                        self._append(broker, name, each) for each in topic.partition_data
                    ),
                )
            )
        return produce.ProduceResponse(responses=tuple(answers)) if request.acks else None

    def _append(
        self, broker: MockBroker, topic: str, data: produce.PartitionProduceData
    ) -> produce.PartitionProduceResponse:
        error, base = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
        if topic in self.topics and data.index < len(self.topics[topic]):
            partition = self.topics[topic][data.index]
            if partition.leader_id != broker.node_id:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                assert data.records is not None
                error, base = partition.append(bytes(data.records))
        return produce.PartitionProduceResponse(
            index=data.index, error_code=error, base_offset=base
        )

    def _find_coordinator(
        self, broker: MockBroker, request: find_coordinator.FindCoordinatorRequest, version: int
    ) -> Message:
        del broker, version
        return find_coordinator.FindCoordinatorResponse(
            coordinators=tuple(
                find_coordinator.Coordinator(
                    key=key,
                    node_id=self.coordinator_id,
                    host="127.0.0.1",
                    port=self.brokers[self.coordinator_id].port,
                )
                for key in request.coordinator_keys
            )
        )

    def _init_producer_id(
        self, broker: MockBroker, request: init_producer_id.InitProducerIdRequest, version: int
    ) -> Message:
        del broker, version
        if request.transactional_id is not None:
            return self.transactions.init(request)
        return init_producer_id.InitProducerIdResponse(
            producer_id=self._new_producer_id(), producer_epoch=0
        )

    def _new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id
