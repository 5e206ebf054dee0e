"""Decide OffsetFetch and OffsetDelete.

Topic ids have been resolved before, and a request has only groups of this shard. Fetching from an
unknown group is no error: it has no offsets (GR-12).
"""

from itertools import groupby
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.coordinator.group.committed_offsets import CommittedOffsets, tombstone
from headwater.coordinator.group.group import Group
from headwater.coordinator.records.offset_records import OffsetCommitValue
from headwater.coordinator.runtime.coordinator_effects import Append, Effect, Reply, RequestEvent
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

_NO_OFFSET: Final = -1
_FIRST_WITH_GROUP_ERROR: Final = 2


def fetch_group(
    requested: OffsetFetchRequestGroup,
    group: Group | None,
    offsets: CommittedOffsets,
    *,
    require_stable: bool,
    version: int,
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group."""
    if group is not None:
        error = group.validate_fetch(
            member_id=requested.member_id, member_epoch=requested.member_epoch
        )
        if error is not None:
            return fetch_error_response(requested, error, version)
    lookup = _Lookup(requested.group_id, offsets, require_stable=require_stable)
    if requested.topics is None:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=lookup.all_topics())
    topics = tuple(
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                lookup.partition(TopicPartition(topic.name, index), topic.topic_id)
                for index in topic.partition_indexes
            ),
        )
        for topic in requested.topics
    )
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)


def fetch_error_response(
    requested: OffsetFetchRequestGroup, error: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """Return a group's error; versions 0 and 1 only have errors of partitions (GR-12)."""
    if version >= _FIRST_WITH_GROUP_ERROR:
        return OffsetFetchResponseGroup(group_id=requested.group_id, error_code=error)
    topics = tuple(
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=tuple(_failed(index, error) for index in topic.partition_indexes),
        )
        for topic in requested.topics or ()
    )
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics, error_code=error)


def delete(
    event: RequestEvent,
    request: OffsetDeleteRequest,
    group: Group | None,
    offsets: CommittedOffsets,
) -> list[Effect]:
    """Delete offsets, except those of topics that a member is subscribed to."""
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
    if group is None or error is not None:
        response = OffsetDeleteResponse(error_code=error or ErrorCode.NONE)
        return [Reply(event.caller, response)]
    subscribed = frozenset(
        topic.name for topic in request.topics if group.is_subscribed_to(topic.name)
    )
    records = tuple(
        tombstone(request.group_id, partition)
        for topic in request.topics
        if topic.name not in subscribed
        for partition in _partitions(topic)
        if offsets.get(request.group_id, partition) is not None
        or offsets.is_pending(request.group_id, partition)
    )
    response = OffsetDeleteResponse(
        topics=tuple(
            _deleted(topic, is_subscribed=topic.name in subscribed) for topic in request.topics
        )
    )
    effects: list[Effect] = [Append(records)] if records else []
    return [*effects, Reply(event.caller, response)]


class _Lookup:
    """Looks up the offsets of one group."""

    def __init__(self, group_id: str, offsets: CommittedOffsets, *, require_stable: bool) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._require_stable = require_stable

    def all_topics(self) -> tuple[OffsetFetchResponseTopics, ...]:
        """Topics with pending offsets only are left out, as in Kafka."""
        committed = self._offsets.of_group(self._group_id)
        return tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(self._found(partition, value) for partition, value in of_topic),
            )
            for topic, of_topic in groupby(committed, key=lambda each: each[0].topic)
        )

    def partition(
        self, partition: TopicPartition, topic_id: TopicId
    ) -> OffsetFetchResponsePartitions:
        value = self._offsets.get(self._group_id, partition)
        if value is not None and not _are_same(value.topic_id, topic_id):
            # It was committed to a deleted topic of that name.
            value = None
        return self._found(partition, value)

    def _found(
        self, partition: TopicPartition, value: OffsetCommitValue | None
    ) -> OffsetFetchResponsePartitions:
        if self._require_stable and self._offsets.is_pending(self._group_id, partition):
            return _failed(partition.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if value is None:
            return _failed(partition.partition, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=partition.partition,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
        )


def _are_same(one: TopicId, other: TopicId) -> bool:
    """Return whether two ids may be of one topic; without an id, names have to match."""
    return one == other or NO_TOPIC_ID in (one, other)


def _failed(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=_NO_OFFSET, error_code=error
    )


def _partitions(topic: OffsetDeleteRequestTopic) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, each.partition_index) for each in topic.partitions)


def _deleted(topic: OffsetDeleteRequestTopic, *, is_subscribed: bool) -> OffsetDeleteResponseTopic:
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ),
    )
