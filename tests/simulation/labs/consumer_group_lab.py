"""One consumer group with its log, timers and topics, controlled by a test.

Executes effects like a runtime: appended records are encoded as Kafka's bytes and replayed; replies
are kept. `restart` is a new coordinator that only has the log.
"""

from headwater.common.ids import NodeId, TopicId
from headwater.coordinator.group.consumer.consumer_group import ConsumerGroup
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    CancelTimer,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
    TimerFired,
    TimerKey,
)
from headwater.metadata.changes import PartitionsAdded, TopicCreated, TopicDeleted
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, TopicImage
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.labs.cluster_lab import after, lone_broker, rng

GROUP = "readers"
NEWEST = 1


class GroupLab:
    def __init__(self, settings: ConsumerGroupSettings | None = None, seed: int = 1) -> None:
        self.now_ms = 1_000_000
        self.image = lone_broker()
        self.records: list[ConsumerGroupRecord] = []
        self.timers: dict[TimerKey, int] = {}
        self.loses_appends = False
        self._settings = settings or ConsumerGroupSettings()
        self._rng = rng(seed)
        self._topics_made = 0
        self._callers = 0
        self.group = self._new_group()

    def _new_group(self) -> ConsumerGroup:
        return ConsumerGroup(
            GROUP, settings=self._settings, rng=self._rng, image=self._current_image
        )

    def _current_image(self) -> ClusterImage:
        return self.image

    def create_topic(self, name: str, partitions: int) -> TopicId:
        self._topics_made += 1
        topic_id = TopicId(self._topics_made.to_bytes(16, "big"))
        topic = TopicImage(name=name, topic_id=topic_id, partitions=_partitions(partitions))
        self.image = after(self.image, TopicCreated(topic))
        return topic_id

    def grow_topic(self, name: str, more: int) -> None:
        self.image = after(self.image, PartitionsAdded(name, _partitions(more)))

    def delete_topic(self, name: str) -> None:
        self.image = after(self.image, TopicDeleted(name))

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int = NEWEST
    ) -> ConsumerGroupHeartbeatResponse:
        (reply,) = self.carry_out(self.decide(request, version))
        assert isinstance(reply.response, ConsumerGroupHeartbeatResponse)
        return reply.response

    def decide(self, request: ConsumerGroupHeartbeatRequest, version: int = NEWEST) -> list[Effect]:
        """Return the group's effects without executing them."""
        self._callers += 1
        asked = RequestEvent(
            request=request,
            version=version,
            caller=Caller(self._callers),
            client_id="tester",
            client_host="/127.0.0.1",
            now_ms=self.now_ms,
        )
        return self.group.decide(asked)

    def carry_out(self, effects: list[Effect]) -> list[Reply]:
        replies = []
        for effect in effects:
            match effect:
                case Append(records):
                    if self.loses_appends:
                        return []
                    for record in records:
                        self._write(record)
                case SetTimer(key, deadline_ms):
                    self.timers[key] = deadline_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case Reply():
                    replies.append(effect)
        return replies

    def _write(self, record: object) -> None:
        assert isinstance(record, ConsumerGroupRecord)
        read_back = GROUP_RECORDS.decode(*GROUP_RECORDS.encode(record))
        assert read_back == record
        assert isinstance(read_back, ConsumerGroupRecord)
        self.records.append(read_back)
        self.group.replay(read_back)

    def pass_time(self, ms: int) -> None:
        """Fire timers in order, each at its time."""
        end_ms = self.now_ms + ms
        while self.timers:
            key, deadline_ms = min(self.timers.items(), key=lambda item: (item[1], str(item[0])))
            if deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            del self.timers[key]
            self.carry_out(self.group.on_timer(TimerFired(key, self.now_ms)))
        self.now_ms = end_ms

    def restart(self, *, compacted: bool = False) -> None:
        """A new coordinator. A compacted log has the last record of each key, in log order."""
        self.group = self._new_group()
        self.timers.clear()
        records = self.records
        if compacted:
            latest = {(type(each), each.key): index for index, each in enumerate(records)}
            records = [records[index] for index in sorted(latest.values())]
        for record in records:
            self.group.replay(record)
        self.carry_out(self.group.loaded(self.now_ms))


def _partitions(count: int) -> tuple[PartitionRegistration, ...]:
    node = NodeId(0)
    return (PartitionRegistration(replicas=(node,), isr=(node,), leader=node),) * count
