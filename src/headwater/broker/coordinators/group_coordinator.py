"""Group coordinator of this broker: its shards of `__consumer_offsets`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from headwater.broker.coordinators.led_shards import LedShards, handle_in_shard
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Clock, Random
from headwater.coordinator.group.group_counters import GroupCounters
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.coordinator_effects import Effect, sees_all
from headwater.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from headwater.coordinator.runtime.coordinator_shard import CoordinatorShard
from headwater.coordinator.runtime.pending_responses import Answer
from headwater.metadata.changes import MetadataChange, TopicDeleted
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import GROUP_VERSION, level_of
from headwater.metadata.internal_topics import CONSUMER_OFFSETS
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.io.executor import Executor

if TYPE_CHECKING:
    from headwater.coordinator.group.group_coordinator_shard import GroupCoordinatorShard

_NEW_PROTOCOL: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)


class GroupCoordinator:
    """Finds the shard of a group. Only for the loop's thread."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        clock: Clock,
        rng: Random,
        executor: Executor,
        timer: Timer,
        partitions: ReplicaManager,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._image = image
        self._settings = static.settings
        self._rng = rng
        self.counters = GroupCounters()
        self._led = LedShards(
            CoordinatorServices(
                topic=CONSUMER_OFFSETS,
                make=self._make,
                codec=GROUP_RECORDS,
                clock=clock,
                timer=timer,
                perform=_unexpected_effect,
                write_timeout_ms=static.settings.offsets_commit_timeout_ms,
            ),
            executor=executor,
            partitions=partitions,
            image=image,
        )

    @property
    def runtime(self) -> CoordinatorRuntime[TopicsDeleted]:
        return self._led.runtime

    def changed(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        """Apply metadata changes; the replica manager has already applied them."""
        self._led.follow(image)
        deleted = tuple(change.name for change in changes if isinstance(change, TopicDeleted))
        if deleted:
            self.runtime.handle_event(TopicsDeleted(deleted))

    def load_some(self, limit_ms: int) -> None:
        """Load shards before the first request needs them, which also starts their timers."""
        self.runtime.load_some(limit_ms)

    def close(self) -> None:
        self._led.close()

    def shard_of(self, group_id: str) -> CoordinatorContext[TopicsDeleted] | ErrorCode:
        """Return the shard that coordinates a group, or an error if another broker has it."""
        return self._led.find(group_id)

    def number_of(self, group_id: str) -> int | None:
        """Return a group's partition, wherever it is led; None while there is no topic."""
        return self._led.number_of(group_id)

    def shards(self) -> list[CoordinatorContext[TopicsDeleted]]:
        """Return all shards on this broker, and start loading all of them."""
        return self._led.all()

    def active_shards(self) -> "list[GroupCoordinatorShard]":
        """Return the loaded shards on this broker, for metrics."""
        found = (each.active_shard for each in self.runtime.shards())
        return [cast("GroupCoordinatorShard", each) for each in found if each is not None]

    def handle_request(
        self,
        group_id: str,
        request: Message,
        call: Call,
        answer: Answer,
        sees: Callable[[str], bool] = sees_all,
    ) -> None:
        shard = self.shard_of(group_id)
        if request.api in _NEW_PROTOCOL and not level_of(self._image(), GROUP_VERSION):
            # As Kafka 4.1 does until group.version is finalized.
            answer(ErrorCode.UNSUPPORTED_VERSION)
        elif isinstance(shard, ErrorCode):
            answer(shard)
        else:
            handle_in_shard(shard, request, call, answer, sees)

    def _make(self, number: int, leader_epoch: int) -> CoordinatorShard[TopicsDeleted]:  # noqa: ARG002
        """Create an empty shard; they are all alike."""
        from headwater.broker.coordinators.group_shard_factory import new_group_shard

        return new_group_shard(self._settings, self._rng, self._image, self.counters)


def _unexpected_effect(shard: CoordinatorContext[TopicsDeleted], effect: Effect) -> None:
    raise AssertionError(f"unexpected effect of group shard {shard.name}: {effect}")
