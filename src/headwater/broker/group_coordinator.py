"""The groups that this broker coordinates: which shard is whose, and what shards must hear."""

from collections.abc import Callable, Sequence
from typing import Final

from headwater.broker.call import Call
from headwater.broker.led_shards import LedShards, ask_shard
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, TopicDeleted
from headwater.cluster.features import GROUP_VERSION, level_of
from headwater.cluster.image import ClusterImage
from headwater.cluster.topic_names import CONSUMER_OFFSETS
from headwater.coordinator.effects import Effect, sees_all
from headwater.coordinator.groups.group_events import TopicsDeleted
from headwater.coordinator.hosted_shard import HostedShard, ShardTools
from headwater.coordinator.pending_answers import Answer
from headwater.coordinator.records.codec import GROUP_RECORDS
from headwater.coordinator.runtime import CoordinatorRuntime
from headwater.coordinator.shard import Shard
from headwater.model.errors import ErrorCode
from headwater.model.ports import Clock, Dice
from headwater.replication.deadlines import Deadlines
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.storage.executor import Executor
from headwater.wire.api_key import ApiKey
from headwater.wire.lifting import Message

_NEW_PROTOCOL: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)


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
        self._image = image
        self._settings = static.settings
        self._dice = dice
        self._led = LedShards(
            ShardTools(
                topic=CONSUMER_OFFSETS,
                make=self._make,
                codec=GROUP_RECORDS,
                clock=clock,
                deadlines=deadlines,
                perform=_refuse_effect,
                write_timeout_ms=static.settings.offsets_commit_timeout_ms,
            ),
            executor=executor,
            partitions=partitions,
            image=image,
        )

    @property
    def runtime(self) -> CoordinatorRuntime[TopicsDeleted]:
        return self._led.runtime

    def changed(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        """The cluster has agreed on something; the partitions that are here know it already."""
        self._led.follow(image)
        gone = tuple(fact.name for fact in facts if isinstance(fact, TopicDeleted))
        if gone:
            self.runtime.tell(TopicsDeleted(gone))

    def load_some(self, limit_ms: int) -> None:
        """Have groups ready before somebody asks for them, and their timers running."""
        self.runtime.load_some(limit_ms)

    def close(self) -> None:
        self._led.close()

    def shard_of(self, group_id: str) -> HostedShard[TopicsDeleted] | ErrorCode:
        """Who looks after a group, or why nobody does here."""
        return self._led.find(group_id)

    def number_of(self, group_id: str) -> int | None:
        """The shard that a group falls into, here or elsewhere; None while there are none."""
        return self._led.number_of(group_id)

    def shards(self) -> list[HostedShard[TopicsDeleted]]:
        """All that are here, and all that are not loaded yet begin to be."""
        return self._led.all()

    def ask(
        self,
        group_id: str,
        request: Message,
        call: Call,
        answer: Answer,
        sees: Callable[[str], bool] = sees_all,
    ) -> None:
        shard = self.shard_of(group_id)
        if request.api in _NEW_PROTOCOL and not level_of(self._image(), GROUP_VERSION):
            # Kafka does this (4.1) while the cluster has not agreed on the feature.
            answer(ErrorCode.UNSUPPORTED_VERSION)
        elif isinstance(shard, ErrorCode):
            answer(shard)
        else:
            ask_shard(shard, request, call, answer, sees)

    def _make(self, number: int, leader_epoch: int) -> Shard[TopicsDeleted]:  # noqa: ARG002
        """All are made alike."""
        from headwater.broker.group_shards import new_group_shard

        return new_group_shard(self._settings, self._dice, self._image)


def _refuse_effect(shard: HostedShard[TopicsDeleted], effect: Effect) -> None:
    raise AssertionError(f"groups of {shard.name} reach beyond it: {effect}")
