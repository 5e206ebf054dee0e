"""Brokers for tests of planning: topics as lists of timestamps, of which some are gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.errors import UnknownTopicOrPartition
from headwater.common.ids import TopicPartition
from headwater.spark.source.topic_offsets import EARLIEST, LATEST


@dataclass
class FakeLog:
    """The timestamps of a partition's records, the first of which may be deleted."""

    timestamps: list[int] = field(default_factory=list)
    start: int = 0


class FakeBrokers:
    """See `headwater.spark.source.offset_reader.Brokers`."""

    def __init__(self, **sizes: list[int]) -> None:
        """Of each topic how many records its partitions have; they are a second apart."""
        self.logs = {
            TopicPartition(topic, number): FakeLog([1000 * each for each in range(size)])
            for topic, counts in sizes.items()
            for number, size in enumerate(counts)
        }

    def add(self, partition: TopicPartition, count: int) -> None:
        log = self.logs.setdefault(partition, FakeLog())
        log.timestamps += [1000 * (len(log.timestamps) + each) for each in range(count)]

    def topics(self, names: Iterable[str] | None = None) -> dict[str, int]:
        counts: dict[str, int] = {}
        for each in self.logs:
            counts[each.topic] = counts.get(each.topic, 0) + 1
        if names is None:
            return counts
        missing = [name for name in names if name not in counts]
        if missing:
            raise UnknownTopicOrPartition(f"topic {missing[0]}: UNKNOWN_TOPIC_OR_PARTITION")
        return {name: counts[name] for name in names}

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {
            each: OffsetAndTimestamp(self._offset(self.logs[each], at), at, 0)
            for each, at in timestamps.items()
        }

    def _offset(self, log: FakeLog, at: int) -> int:
        if at == EARLIEST:
            return log.start
        if at == LATEST:
            return len(log.timestamps)
        young = (
            offset
            for offset, timestamp in enumerate(log.timestamps)
            if offset >= log.start and timestamp >= at
        )
        return next(young, -1)
