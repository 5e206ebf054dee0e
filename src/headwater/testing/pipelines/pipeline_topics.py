"""The topics of a pipeline under test: make, fill, read and delete them."""

from collections.abc import Iterable, Mapping
from typing import Self

from headwater.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, ProducerRecord
from headwater.client.errors import UnknownTopicOrPartition
from headwater.common.ids import TopicPartition

_READ_PATIENCE_S = 60.0
# No broker gives such an id to a producer of a test.
_MARKER_PRODUCER_ID = (1 << 62) + 1
# Brokers and topics that tests of this process have deleted.
_deleted: set[tuple[str, str]] = set()


class TopicSet:
    """Topics that are deleted at the end of a test if the test made them."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = dict(client)
        self._admin = Admin(self._client)
        self._producer: Producer | None = None
        self._made: list[str] = []
        self._read_to: dict[TopicPartition, int] = {}

    def make(self, topics: Iterable[str], partitions: int) -> None:
        """Create the missing ones."""
        topics = list(topics)
        known = self._known(topics)
        new = [name for name in dict.fromkeys(topics) if name not in known]
        if new:
            self._admin.create_topics(
                [NewTopic(name=name, partitions=partitions, replication_factor=1) for name in new]
            )
            self._made += new

    def note(self, topics: Iterable[str]) -> None:
        """Return the topics that the pipeline will create."""
        topics = list(topics)
        known = self._known(topics)
        self._made += [name for name in topics if name not in known and name not in self._made]

    def send(self, records: Iterable[ProducerRecord]) -> None:
        """Return when all are acknowledged."""
        if self._producer is None:
            self._producer = Producer(self._client)
        sent = [
            self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp,
                headers=record.headers or [],
            )
            for record in records
        ]
        self._producer.flush()
        for each in sent:
            each.result()

    def move_end(self, topics: Iterable[str]) -> None:
        """Add an offset without a record to each topic: a marker of a transaction.

        A query then has something to read, and its batch has no rows.
        """
        for topic in topics:
            self._admin.abort_transaction(
                TopicPartition(topic, 0),
                producer_id=_MARKER_PRODUCER_ID,
                producer_epoch=0,
                coordinator_epoch=0,
            )

    def read_new(self, topic: str) -> list[ConsumerRecord]:
        """Committed records since the last call, partition by partition."""
        with Consumer(
            {**self._client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        ) as consumer:
            try:
                numbers = consumer.partitions_for(topic)
            except UnknownTopicOrPartition:
                return []
            partitions = [TopicPartition(topic, each) for each in numbers]
            consumer.assign(partitions)
            for each in partitions:
                consumer.seek(each, self._read_to.get(each, 0))
            ends = consumer.end_offsets(partitions)
            found: list[ConsumerRecord] = []
            while any(consumer.position(each) < ends[each] for each in partitions):
                found += consumer.poll(_READ_PATIENCE_S)
            self._read_to |= ends
        return sorted(found, key=lambda each: (each.partition, each.offset))

    def close(self) -> None:
        """Delete the topics that the test made."""
        if self._producer is not None:
            self._producer.close()
        known = set(self._admin.list_topics())
        # A topic that one sink creates may be the source of another.
        gone = [name for name in dict.fromkeys(self._made) if name in known]
        if gone:
            self._admin.delete_topics(gone)
            _deleted.update((self._client["bootstrap.servers"], name) for name in gone)
        self._admin.close()

    def _known(self, topics: list[str]) -> set[str]:
        """The topics that exist, without empty ones that a client has made again.

        Clients that Spark's workers keep ask for the topics of earlier tests, which has a broker
        create them (`auto.create.topics.enable`).
        """
        known = set(self._admin.list_topics())
        servers = self._client["bootstrap.servers"]
        again = [name for name in topics if name in known and (servers, name) in _deleted]
        empty = [name for name in again if name not in self._made and self._is_empty(name)]
        if empty:
            self._admin.delete_topics(empty)
        return known - set(empty)

    def _is_empty(self, topic: str) -> bool:
        with Consumer(self._client) as consumer:
            partitions = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
            return not any(consumer.end_offsets(partitions).values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
