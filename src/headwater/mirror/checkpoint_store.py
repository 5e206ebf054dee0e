"""Read and write the checkpoint topic of a cluster."""

from headwater.client import Admin, NewTopic, Producer
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import TopicAlreadyExists
from headwater.mirror.checkpoints import (
    REGISTRY,
    REGISTRY_CONFIGS,
    REGISTRY_PARTITION,
    CheckpointView,
    path_record,
)
from headwater.records.arrow_columns import decode_batches
from headwater.spark.source.topic_offsets import EARLIEST, LATEST


class CheckpointStore:
    """The contents of one cluster's checkpoint topic. The caller closes the reader."""

    def __init__(self, reader: OffsetRangeReader) -> None:
        self._reader = reader
        self._position: int | None = None
        self.view = CheckpointView()

    def refresh(self) -> CheckpointView:
        """Read what has been committed since the last call. The topic may not exist yet."""
        if REGISTRY not in self._reader.topics():
            return self.view
        if self._position is None:
            self._position = self._at(EARLIEST)
        end = self._at(LATEST)
        for fetched in self._reader.read(REGISTRY_PARTITION, self._position, end):
            records = decode_batches(
                fetched.data, fetched.batches, first_offset=fetched.first_offset
            )
            keys, values = records.column("key"), records.column("value")
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                self.view.replay(key, value)
            self._position = fetched.next_offset
        return self.view

    def _at(self, timestamp: int) -> int:
        return self._reader.offsets({REGISTRY_PARTITION: timestamp})[REGISTRY_PARTITION].offset


def create_checkpoint_topic(admin: Admin, replication_factor: int) -> None:
    """Create the topic unless it exists."""
    topic = NewTopic(
        name=REGISTRY,
        partitions=1,
        replication_factor=replication_factor,
        configs=dict(REGISTRY_CONFIGS),
    )
    try:
        admin.create_topics([topic])
    except TopicAlreadyExists:
        return


def write_paths(producer: Producer, paths: dict[str, tuple[str, ...]]) -> None:
    """Write the paths of topics, and wait until they are acknowledged."""
    sent = []
    for topic, path in paths.items():
        key, value = path_record(topic, path)
        sent.append(producer.send(REGISTRY, value, key, partition=0))
    for each in sent:
        each.result()
