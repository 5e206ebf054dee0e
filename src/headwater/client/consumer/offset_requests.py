"""ListOffsets, OffsetForLeaderEpoch, OffsetFetch and OffsetCommit, with retries.

Each goes to the partition leaders or the group coordinator and is retried until every partition
has a result.

Note: OffsetFetch and OffsetCommit use topic names (versions up to 9), because committed offsets
are stored by name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from headwater.client.consumer.group.member import COORDINATOR_LOST, Identity
from headwater.client.error_messages import meaning
from headwater.client.errors import KafkaError, LeaderNotAvailable, UnsupportedVersion, error_for
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.client.network.cluster_client import GROUP, ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, TopicPartition
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1
_NEWEST_BY_NAME: Final = 9
_UNKNOWN: Final = -1

NO_IDENTITY: Final = Identity(-1, "", None)
"""The identity for commits without being a member."""

A = TypeVar("A")
T = TypeVar("T")
_CallLeader = Callable[
    [int, dict[TopicPartition, int]], Awaitable[dict[TopicPartition, T | ErrorCode]]
]


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after the requested timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetRequests:
    """Sends offset requests of one cluster. Runs on the loop's thread."""

    def __init__(self, cluster: ClusterClient, *, is_committed_only: bool = False) -> None:
        self._cluster = cluster
        self._isolation_level = int(is_committed_only)

    # ListOffsets and OffsetForLeaderEpoch.

    async def listed(
        self, timestamps: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by timestamp (-1: end, -2: beginning); offset -1 if there is none.

        Raises `KafkaTimeout` or a fatal error.
        """
        return await self._call_leaders(timestamps, self._list_offsets, deadline_ms)

    async def ends_of_epochs(
        self, epochs: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, EpochEndOffset]:
        """The end offsets of leader epochs in the leaders' logs (KIP-320)."""
        return await self._call_leaders(epochs, self._list_epoch_ends, deadline_ms)

    async def _call_leaders(
        self,
        requested: Mapping[TopicPartition, int],
        call: _CallLeader[T],
        deadline_ms: int,
    ) -> dict[TopicPartition, T]:
        """Send each leader its partitions; retry until all have results."""
        found: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            left = {each: what for each, what in requested.items() if each not in found}
            by_node = await self._by_leader(left, deadline_ms)
            answers = await asyncio.gather(
                *(call(node_id, theirs) for node_id, theirs in by_node.items()),
                return_exceptions=True,
            )
            failures: list[KafkaError] = []
            for answer in answers:
                if isinstance(answer, KafkaError):
                    failures.append(answer)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    for partition, outcome in answer.items():
                        if isinstance(outcome, ErrorCode):
                            text = f"{partition}: {meaning(outcome)}"
                            failures.append(error_for(outcome, text))
                        else:
                            found[partition] = outcome
            if not failures:
                failures += [_missing(each) for each in left if each not in found]
            if failures:
                self._cluster.request_metadata_update()
                raise next((each for each in failures if not each.is_retriable), failures[0])

        if requested:
            await self._cluster.retrying.until(deadline_ms, attempt)
        return found

    async def _by_leader(
        self, requested: Mapping[TopicPartition, A], deadline_ms: int
    ) -> dict[int, dict[TopicPartition, A]]:
        by_node: dict[int, dict[TopicPartition, A]] = {}
        self._cluster.use_topics(each.topic for each in requested)
        for partition, what in requested.items():
            await self._cluster.topic(partition.topic, deadline_ms=deadline_ms)
            view = self._cluster.metadata.partition(*partition)
            if view is None or view.leader_id == NO_NODE:
                self._cluster.request_metadata_update()
                raise LeaderNotAvailable(f"{partition} has no leader or does not exist")
            by_node.setdefault(view.leader_id, {})[partition] = what
        return by_node

    async def _list_offsets(
        self, node_id: int, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | ErrorCode]:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            topics=tuple(
                ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        ListOffsetsPartition(
                            partition_index=each.partition,
                            current_leader_epoch=self._leader_epoch(each),
                            timestamp=timestamps[each],
                        )
                        for each in partitions
                    ),
                )
                for topic, partitions in _by_topic(timestamps).items()
            ),
        )
        response = await self._cluster.call(node_id, request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): (
                OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
                if each.error_code is ErrorCode.NONE
                else each.error_code
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def _list_epoch_ends(
        self, node_id: int, epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEndOffset | ErrorCode]:
        request = OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=tuple(
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=tuple(
                        OffsetForLeaderPartition(
                            partition=each.partition,
                            current_leader_epoch=self._leader_epoch(each),
                            leader_epoch=epochs[each],
                        )
                        for each in partitions
                    ),
                )
                for topic, partitions in _by_topic(epochs).items()
            ),
        )
        response = await self._cluster.call(node_id, request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, each.partition): (
                each if each.error_code is ErrorCode.NONE else each.error_code
            )
            for topic in response.topics
            for each in topic.partitions
        }

    def _leader_epoch(self, partition: TopicPartition) -> int:
        view = self._cluster.metadata.partition(*partition)
        return NO_EPOCH if view is None else view.leader_epoch

    # OffsetFetch and OffsetCommit.

    async def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        deadline_ms: int,
        identity: Identity = NO_IDENTITY,
        require_stable: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group, without partitions that have none.

        Given None, all partitions.

        With `require_stable`, waits for transactions with pending offsets.
        """
        topics = None
        if partitions is not None:
            topics = tuple(
                OffsetFetchRequestTopics(
                    name=topic, partition_indexes=tuple(each.partition for each in theirs)
                )
                for topic, theirs in _by_topic(partitions).items()
            )
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=identity.member_id or None,
            member_epoch=identity.generation_id,
            topics=topics,
        )
        request = OffsetFetchRequest(groups=(group,), require_stable=require_stable)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            response = await self._fetch_from_coordinator(group_id, request, deadline_ms)
            return self._read_committed(group_id, response)

        try:
            return await self._cluster.retrying.until(deadline_ms, attempt)
        except UnsupportedVersion:
            if not require_stable:
                raise
            # Brokers before 2.5 do not know require_stable; Kafka's clients fall back, too.
            return await self.committed(
                group_id,
                partitions,
                deadline_ms=deadline_ms,
                identity=identity,
                require_stable=False,
            )

    def _read_committed(
        self, group_id: str, response: OffsetFetchResponse
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        (answer,) = response.groups
        self._check_group(group_id, answer.error_code)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                self._check_group(group_id, each.error_code)
                if each.committed_offset != _UNKNOWN:
                    place = TopicPartition(topic.name, each.partition_index)
                    found[place] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        return found

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Callable[[], Identity] = lambda: NO_IDENTITY,
        *,
        deadline_ms: int,
        is_retriable: Callable[[KafkaError], bool] = lambda error: error.is_retriable,
    ) -> None:
        """Commit with retries. Raises the first error of a partition."""
        topics = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=offsets[each].offset,
                        committed_leader_epoch=offsets[each].leader_epoch,
                        committed_metadata=offsets[each].metadata,
                    )
                    for each in partitions
                ),
            )
            for topic, partitions in _by_topic(offsets).items()
        )

        async def attempt() -> None:
            who = identity()
            request = OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=who.generation_id,
                member_id=who.member_id,
                group_instance_id=who.group_instance_id,
                topics=topics,
            )
            response = await self._commit_to_coordinator(group_id, request, deadline_ms)
            answered: set[TopicPartition] = set()
            for topic in response.topics:
                for each in topic.partitions:
                    self._check_group(group_id, each.error_code)
                    answered.add(TopicPartition(topic.name, each.partition_index))
            for partition in offsets:
                if partition not in answered:
                    raise _missing(partition)

        if offsets:
            await self._cluster.retrying.until(deadline_ms, attempt, is_retriable=is_retriable)

    async def _fetch_from_coordinator(
        self, group_id: str, request: OffsetFetchRequest, deadline_ms: int
    ) -> OffsetFetchResponse:
        node_id = await self._cluster.coordinator(GROUP, group_id, deadline_ms=deadline_ms)
        try:
            response = await self._cluster.call(
                node_id, request, OffsetFetchResponse, newest=_NEWEST_BY_NAME
            )
        except KafkaError:
            self._cluster.forget_coordinator(GROUP, group_id)
            raise
        if len(response.groups) != 1:
            raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the response has no group")
        return response

    async def _commit_to_coordinator(
        self, group_id: str, request: OffsetCommitRequest, deadline_ms: int
    ) -> OffsetCommitResponse:
        node_id = await self._cluster.coordinator(GROUP, group_id, deadline_ms=deadline_ms)
        try:
            return await self._cluster.call(
                node_id, request, OffsetCommitResponse, newest=_NEWEST_BY_NAME
            )
        except KafkaError:
            self._cluster.forget_coordinator(GROUP, group_id)
            raise

    def _check_group(self, group_id: str, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        if code in COORDINATOR_LOST:
            self._cluster.forget_coordinator(GROUP, group_id)
        raise error_for(code, f"group {group_id}: {meaning(code)}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    return by_topic


def _missing(partition: TopicPartition) -> KafkaError:
    text = f"{partition}: missing from the response"
    return error_for(ErrorCode.UNKNOWN_SERVER_ERROR, text)
