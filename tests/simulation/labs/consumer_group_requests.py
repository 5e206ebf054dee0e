"""Short ways to build heartbeats, responses and subscriptions."""

from struct import pack

from headwater.common.ids import TopicId
from headwater.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.simulation.labs.consumer_group_lab import GROUP


def joining(
    member_id: str,
    *names: str,
    instance_id: str | None = None,
    regex: str | None = None,
    assignor: str | None = None,
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=(),
    )


def beat(
    member_id: str,
    epoch: int,
    owned: tuple[TopicPartitions, ...] | None = None,
    names: tuple[str, ...] | None = None,
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=owned,
        subscribed_topic_names=names,
    )


def of(topic_id: TopicId, *partitions: int) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic_id=topic_id, partitions=partitions),)


def told(
    epoch: int, assignment: tuple[TopicPartitions, ...] | None, member_id: str = "a"
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=None if assignment is None else Assignment(topic_partitions=assignment),
    )


def subscription(*topics: str, owned: dict[str, tuple[int, ...]] | None = None) -> bytes:
    """Version 1, as cooperative consumers send it, written by hand."""
    data = pack(">hi", 1, len(topics))
    for topic in topics:
        data += pack(">h", len(topic)) + topic.encode()
    data += pack(">ii", -1, len(owned or {}))
    for topic, partitions in (owned or {}).items():
        data += pack(">h", len(topic)) + topic.encode()
        data += pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return data
