"""The groups that this broker coordinates: which shard is whose, and what shards must hear.

What a reader would get wrong: without `__consumer_offsets` there is no coordinator at all, and
whoever asks for one by FindCoordinator makes the topic. So a request that comes before that is
sent there.
"""

from collections.abc import Callable, Sequence

from headwater.broker.call import Call
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, TopicDeleted
from headwater.cluster.image import ClusterImage
from headwater.cluster.topic_names import CONSUMER_OFFSETS
from headwater.coordinator.effects import Effect
from headwater.coordinator.groups.group_events import TopicsDeleted
from headwater.coordinator.hosted_shard import Answer, HostedShard, ShardTools
from headwater.coordinator.partition_of_key import partition_of_key
from headwater.coordinator.records.codec import GROUP_RECORDS
from headwater.coordinator.runtime import CoordinatorRuntime
from headwater.coordinator.shard import Shard
from headwater.coordinator.shard_log import PartitionShardLog, ShardLog
from headwater.model.errors import ErrorCode
from headwater.model.ports import Clock, Dice
from headwater.replication.deadlines import Deadlines
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.storage.executor import Executor
from headwater.wire.lifting import Message


class GroupCoordinator:
    """See the module. For the loop's thread only."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        clock: Clock,
        dice: Dice,
        executor: Executor,
        deadlines: Deadlines,
        partitions: HostedPartitions,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._executor = executor
        self._partitions = partitions
        self._image = image
        self._settings = static.settings
        self._dice = dice
        self._led: dict[int, int] = {}
        self.runtime: CoordinatorRuntime[TopicsDeleted] = CoordinatorRuntime(
            ShardTools(
                topic=CONSUMER_OFFSETS,
                make=self._make,
                codec=GROUP_RECORDS,
                clock=clock,
                deadlines=deadlines,
                perform=_refuse_effect,
            )
        )

    def changed(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        """The cluster has agreed on something; the partitions that are here know it already."""
        self._follow(image)
        gone = tuple(fact.name for fact in facts if isinstance(fact, TopicDeleted))
        if gone:
            self.runtime.tell(TopicsDeleted(gone))

    def load_some(self, limit_ms: int) -> None:
        """Have groups ready before somebody asks for them, and their timers running."""
        self.runtime.load_some(limit_ms)

    def close(self) -> None:
        self._led.clear()
        self.runtime.close()

    def shard_of(self, group_id: str) -> HostedShard[TopicsDeleted] | ErrorCode:
        """Who looks after a group, or why nobody does here."""
        topic = self._image().topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return ErrorCode.NOT_COORDINATOR
        number = partition_of_key(group_id, len(topic.partitions))
        return self.runtime.find(number) or ErrorCode.NOT_COORDINATOR

    def shards(self) -> list[HostedShard[TopicsDeleted]]:
        """All that are here, and all that are not loaded yet begin to be."""
        found = (self.runtime.find(shard.number) for shard in self.runtime.shards())
        return [shard for shard in found if shard is not None]

    def ask(self, group_id: str, request: Message, call: Call, answer: Answer) -> None:
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            answer(shard)
        else:
            ask_shard(shard, request, call, answer)

    def _make(self, number: int, leader_epoch: int) -> Shard[TopicsDeleted]:  # noqa: ARG002
        """All are made alike."""
        from headwater.broker.group_shards import new_group_shard

        return new_group_shard(self._settings, self._dice, self._image)

    def _follow(self, image: ClusterImage) -> None:
        """Lead what this broker leads now."""
        topic = image.topics.get(CONSUMER_OFFSETS)
        count = 0 if topic is None else len(topic.partitions)
        for number in [*self._led]:
            if number >= count or self._hosted(number) is None:
                del self._led[number]
                self.runtime.resign(number)
        for number in range(count):
            hosted = self._hosted(number)
            if hosted is not None and self._led.get(number) != hosted.leader_epoch:
                self._led[number] = hosted.leader_epoch
                self.runtime.lead(number, self._opening(hosted))

    def _hosted(self, number: int) -> HostedPartition | None:
        hosted = self._partitions.find(CONSUMER_OFFSETS, number)
        return hosted if hosted is not None and hosted.refuse() is None else None

    def _opening(self, hosted: HostedPartition) -> Callable[[], ShardLog]:
        return lambda: PartitionShardLog(hosted, GROUP_RECORDS, self._executor)


def ask_shard(
    shard: HostedShard[TopicsDeleted], request: Message, call: Call, answer: Answer
) -> None:
    shard.ask(
        request,
        version=call.version,
        client_id=call.client_id,
        # Kafka does this: its addresses print with a slash before them.
        client_host=f"/{call.host}",
        answer=answer,
    )


def _refuse_effect(shard: HostedShard[TopicsDeleted], effect: Effect) -> None:
    raise AssertionError(f"groups of {shard.name} reach beyond it: {effect}")
