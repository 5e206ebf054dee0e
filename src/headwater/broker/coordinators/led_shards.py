"""The coordinator shards of one internal topic that this broker leads.

Both coordinators have such shards, one per partition of their topic, created and removed as
leaderships change.

Note: without the topic there is no coordinator. FindCoordinator creates the topic, so earlier
requests get NOT_COORDINATOR, which makes clients send FindCoordinator.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.coordinator_effects import sees_all
from headwater.coordinator.runtime.coordinator_log import CoordinatorLog, PartitionCoordinatorLog
from headwater.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from headwater.coordinator.runtime.partition_for_key import partition_for
from headwater.coordinator.runtime.pending_responses import Answer
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.older_versions import Message
from headwater.replication.partition import Partition
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.io.executor import Executor

Event = TypeVar("Event")


class LedShards(Generic[Event]):
    """Shards by partition. Only for the loop's thread."""

    def __init__(
        self,
        tools: CoordinatorServices[Event],
        *,
        executor: Executor,
        partitions: ReplicaManager,
        image: Callable[[], ClusterImage],
    ) -> None:
        self.runtime: CoordinatorRuntime[Event] = CoordinatorRuntime(tools)
        self._topic = tools.topic
        self._codec = tools.codec
        self._executor = executor
        self._partitions = partitions
        self._image = image
        # With their leader epochs. A re-created topic starts again with low epochs.
        self._led: dict[int, tuple[Partition, int]] = {}

    def follow(self, image: ClusterImage) -> None:
        """Create and remove shards according to this broker's leaderships."""
        topic = image.topics.get(self._topic)
        count = 0 if topic is None else len(topic.partitions)
        for number in [*self._led]:
            if number >= count or self._hosted(number) is None:
                del self._led[number]
                self.runtime.resign(number)
        for number in range(count):
            hosted = self._hosted(number)
            if hosted is not None and self._led.get(number) != (hosted, hosted.leader_epoch):
                self._led[number] = (hosted, hosted.leader_epoch)
                self.runtime.lead(number, self._opening(hosted))

    def close(self) -> None:
        self._led.clear()
        self.runtime.close()

    def number_of(self, key: str) -> int | None:
        """Return a key's partition, or None while there is no topic."""
        topic = self._image().topics.get(self._topic)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def find(self, key: str) -> CoordinatorContext[Event] | ErrorCode:
        """Return the shard of a key, or an error if it is not on this broker."""
        number = self.number_of(key)
        if number is None:
            return ErrorCode.NOT_COORDINATOR
        return self.runtime.find(number) or ErrorCode.NOT_COORDINATOR

    def all(self) -> list[CoordinatorContext[Event]]:
        """Return all shards on this broker, and start loading all of them."""
        found = (self.runtime.find(shard.number) for shard in self.runtime.shards())
        return [shard for shard in found if shard is not None]

    def _hosted(self, number: int) -> Partition | None:
        hosted = self._partitions.find(self._topic, number)
        return hosted if hosted is not None and hosted.leadership_error() is None else None

    def _opening(self, hosted: Partition) -> Callable[[], CoordinatorLog]:
        return lambda: PartitionCoordinatorLog(hosted, self._codec, self._executor)


def handle_in_shard(
    shard: CoordinatorContext[Event],
    request: Message,
    call: Call,
    answer: Answer,
    sees: Callable[[str], bool] = sees_all,
) -> None:
    """Pass a client's request to a shard."""
    shard.handle_request(
        request,
        version=call.version,
        client_id=call.client_id,
        # Kafka's addresses print with a leading slash.
        client_host=f"/{call.host}",
        answer=answer,
        sees=sees,
    )
