"""Our own consumer as a group member, behind the interface of `group_members`."""

from typing import Final

from headwater.client import Consumer, OffsetAndMetadata, TopicPartition
from tests.compat.clients import TIMEOUT_S
from tests.compat.joining import Joining

_POLL_S: Final = 0.05


class HeadwaterMember:
    def __init__(self, joining: Joining) -> None:
        self._topic = joining.topic
        settings: dict[str, object] = {
            "bootstrap.servers": joining.servers,
            "group.id": joining.group,
            "auto.offset.reset": joining.reset,
            "enable.auto.commit": False,
            "group.protocol": joining.protocol,
            "reconnect.backoff.max.ms": 200,
        }
        if joining.instance is not None:
            settings["group.instance.id"] = joining.instance
        if joining.protocol == "consumer":
            settings["group.remote.assignor"] = joining.strategy
        else:
            settings["partition.assignment.strategy"] = [joining.strategy]
            settings["session.timeout.ms"] = joining.session_ms
            settings["heartbeat.interval.ms"] = joining.session_ms // 10
        self._consumer = Consumer(settings)
        self._consumer.subscribe([joining.topic])

    def poll(self) -> list[tuple[int, int]]:
        return [(each.partition, each.offset) for each in self._consumer.poll(_POLL_S)]

    def owned(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._place(partition), offset)

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        place = self._place(partition)
        found = self._consumer.offsets_for_times({place: timestamp_ms}, TIMEOUT_S)[place]
        return -1 if found is None else found.offset

    def commit(self, partition: int, offset: int, *, waits: bool) -> None:
        offsets = {self._place(partition): OffsetAndMetadata(offset)}
        if waits:
            self._consumer.commit(offsets, TIMEOUT_S)
        else:
            self._consumer.commit_async(offsets)

    def committed(self, partition: int) -> int | None:
        place = self._place(partition)
        found = self._consumer.committed([place], TIMEOUT_S).get(place)
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)
