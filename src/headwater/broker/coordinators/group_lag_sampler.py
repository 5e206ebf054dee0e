"""Sample the log end offsets behind the lag metrics of groups.

Every `headwater.group.lag.interval.ms` the coordinator looks up the high watermark of all
partitions in which its groups have committed offsets: in its own replica if that is in the ISR,
else with one ListOffsets request per leader. As in Kafka's tools, "log end offset" is the offset up
to which consumers can read. `headwater.group.lag.partitions.max` bounds the work; it is done in
steps, so that requests do not wait for it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from headwater.broker.coordinators.group_coordinator import GroupCoordinator
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.coordinator.group.group_lag import GroupLagMonitor, PartitionLag
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer, WakeupTimer
from headwater.replication.replica_manager import ReplicaManager

_STEP_MS: Final = 20
# A step takes about a millisecond.
_PARTITIONS_PER_STEP: Final = 500
_CONSUMER: Final = NodeId(-1)
_LATEST: Final = -1


class TopicLag(NamedTuple):
    """Lag of a group in a topic: all records, and the oldest of the next ones."""

    group: str
    topic: str
    records: int
    time_ms: int


class GroupLagSampler:
    """Only for the loop's thread."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        groups: GroupCoordinator,
        partitions: ReplicaManager,
        image: Callable[[], ClusterImage],
        clock: Clock,
        timer: Timer,
        node_id: NodeId,
        inter_broker_client: InterBrokerClient | None = None,
    ) -> None:
        self._interval_ms = settings.headwater_group_lag_interval_ms
        self._limit = settings.headwater_group_lag_partitions_max
        self._groups = groups
        self._partitions = partitions
        self._image = image
        self._clock = clock
        self._node_id = node_id
        self._inter_broker_client = inter_broker_client
        self._monitor = GroupLagMonitor(self._interval_ms)
        self._wakeup = WakeupTimer(timer, self._step)
        self._round: Iterator[None] = iter(())
        self._next_round_ms = 0
        self.omitted = 0
        """Committed offsets beyond the limit, whose lag is not measured."""

    def start(self) -> None:
        if self._limit:
            self._wakeup.set(self._clock.steady_ms() + self._interval_ms)

    def close(self) -> None:
        self._wakeup.cancel()

    def lags(self) -> Iterator[TopicLag]:
        """Yield the lag of all groups by topic, by their current committed offsets."""
        now_ms, left = self._clock.steady_ms(), self._limit
        for shard in self._groups.active_shards():
            for group_id in shard.offsets.groups():
                offsets = list(islice(shard.offsets.of_group(group_id), left))
                left -= len(offsets)
                found = [
                    (partition.topic, lag)
                    for partition, value in offsets
                    if (lag := self._monitor.lag(partition, value.offset, now_ms)) is not None
                ]
                yield from _by_topic(group_id, found)

    # Sampling.

    def _step(self) -> None:
        now_ms = self._clock.steady_ms()
        if next(self._round, _DONE) is _DONE:
            if now_ms < self._next_round_ms:
                self._wakeup.set(self._next_round_ms)
                return
            self._round = self._sample_all()
            self._next_round_ms = now_ms + self._interval_ms
        self._wakeup.set(now_ms + _STEP_MS)

    def _sample_all(self) -> Iterator[None]:
        """One round in steps. The first step of a round is its creation."""
        wanted: dict[TopicPartition, None] = {}
        left, omitted, steps = self._limit, 0, 0
        for shard in self._groups.active_shards():
            for group_id in shard.offsets.groups():
                for partition, _ in shard.offsets.of_group(group_id):
                    if left:
                        left -= 1
                        wanted[partition] = None
                    else:
                        omitted += 1
                    steps += 1
                    if steps % _PARTITIONS_PER_STEP == 0:
                        yield
        self.omitted = omitted
        self._monitor.retain(wanted)
        yield from self._sample(list(wanted))

    def _sample(self, wanted: list[TopicPartition]) -> Iterator[None]:
        elsewhere: dict[NodeId, dict[str, list[int]]] = {}
        for index, partition in enumerate(wanted, 1):
            end_offset = self._own_end_offset(partition)
            if end_offset is not None:
                self._monitor.sample(partition, end_offset, self._clock.steady_ms())
            else:
                state = self._image().partition(*partition)
                if state is not None and state.leader not in (NO_LEADER, self._node_id):
                    topics = elsewhere.setdefault(state.leader, {})
                    topics.setdefault(partition.topic, []).append(partition.partition)
            if index % _PARTITIONS_PER_STEP == 0:
                yield
        for leader, topics in elsewhere.items():
            self._ask(leader, topics)

    def _own_end_offset(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of this broker's replica, if that is in sync."""
        hosted = self._partitions.find(*partition)
        if hosted is None or hosted.log is None or self._node_id not in hosted.state.isr:
            return None
        return hosted.log.high_watermark

    def _ask(self, leader: NodeId, topics: dict[str, list[int]]) -> None:
        if self._inter_broker_client is None:
            return
        self._inter_broker_client.send_request(
            leader,
            _latest_offsets(topics),
            purpose=Purpose.GROUP_LAG,
            timeout_ms=self._interval_ms,
            then=self._answered,
            on_error=_ignore,
        )

    def _answered(self, response: Message) -> None:
        assert isinstance(response, ListOffsetsResponse)
        now_ms = self._clock.steady_ms()
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code is ErrorCode.NONE:
                    partition = TopicPartition(topic.name, each.partition_index)
                    self._monitor.sample(partition, each.offset, now_ms)


_DONE: Final = object()


def _by_topic(group: str, lags: list[tuple[str, PartitionLag]]) -> Iterator[TopicLag]:
    records: dict[str, int] = {}
    times_ms: dict[str, int] = {}
    for topic, lag in lags:
        records[topic] = records.get(topic, 0) + lag.records
        times_ms[topic] = max(times_ms.get(topic, 0), lag.time_ms)
    for topic, count in records.items():
        yield TopicLag(group, topic, count, times_ms[topic])


def _latest_offsets(topics: dict[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=tuple(
            ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    ListOffsetsPartition(partition_index=number, timestamp=_LATEST)
                    for number in numbers
                ),
            )
            for name, numbers in topics.items()
        ),
    )


def _ignore(error: HeadwaterError) -> None:
    """The next round asks again; until then the lag is estimated from older samples."""
