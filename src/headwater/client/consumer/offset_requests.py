"""Questions about offsets: of logs, of groups, of leader epochs. And commits.

Each goes to the leaders or to the coordinator, is asked again where an answer may get better, and
gives what it has when every partition has an answer. What a reader would get wrong: offsets of
groups are asked for and told by topic name (versions up to 9), because a name outlives a topic.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from headwater.client.consumer.group.member import COORDINATOR_GONE, Identity
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
"""Of one that commits for a group without being in it."""

A = TypeVar("A")
T = TypeVar("T")
_AskLeader = Callable[
    [int, dict[TopicPartition, int]], Awaitable[dict[TopicPartition, T | ErrorCode]]
]


class OffsetAndTimestamp(NamedTuple):
    """The first record that is not older than what was asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetRequests:
    """Asks on one cluster's connections. For the loop's thread."""

    def __init__(self, cluster: ClusterClient, *, is_committed_only: bool = False) -> None:
        self._cluster = cluster
        self._isolation_level = int(is_committed_only)

    # Offsets of logs.

    async def listed(
        self, timestamps: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offset at each timestamp (or at -1, the end; or -2, the start); -1 if there is none.

        Raises `KafkaTimeout`, or what cannot get better.
        """
        return await self._of_leaders(timestamps, self._list_offsets, deadline_ms)

    async def ends_of_epochs(
        self, epochs: Mapping[TopicPartition, int], *, deadline_ms: int
    ) -> dict[TopicPartition, EpochEndOffset]:
        """Where each leader's log of an epoch ends (KIP-320)."""
        return await self._of_leaders(epochs, self._ask_epochs, deadline_ms)

    async def _of_leaders(
        self,
        asked: Mapping[TopicPartition, int],
        ask: _AskLeader[T],
        deadline_ms: int,
    ) -> dict[TopicPartition, T]:
        """Ask each leader for its partitions, until all have answered."""
        found: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            left = {each: what for each, what in asked.items() if each not in found}
            by_node = await self._by_leader(left, deadline_ms)
            answers = await asyncio.gather(
                *(ask(node_id, theirs) for node_id, theirs in by_node.items()),
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
                failures += [_silence(each) for each in left if each not in found]
            if failures:
                self._cluster.want_refresh()
                raise next((each for each in failures if not each.is_retriable), failures[0])

        if asked:
            await self._cluster.retrying.until(deadline_ms, attempt)
        return found

    async def _by_leader(
        self, asked: Mapping[TopicPartition, A], deadline_ms: int
    ) -> dict[int, dict[TopicPartition, A]]:
        by_node: dict[int, dict[TopicPartition, A]] = {}
        self._cluster.use_topics(each.topic for each in asked)
        for partition, what in asked.items():
            await self._cluster.topic(partition.topic, deadline_ms=deadline_ms)
            view = self._cluster.metadata.partition(*partition)
            if view is None or view.leader_id == NO_NODE:
                self._cluster.want_refresh()
                raise LeaderNotAvailable(f"{partition} has no leader, or does not exist")
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

    async def _ask_epochs(
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

    # Offsets of groups.

    async def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        deadline_ms: int,
        identity: Identity = NO_IDENTITY,
        require_stable: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed; partitions without a commit are left out. None asks for all.

        A transaction that is still open over them is waited for, if `require_stable`.
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
            response = await self._of_coordinator(group_id, request, deadline_ms)
            return self._read_committed(group_id, response)

        try:
            return await self._cluster.retrying.until(deadline_ms, attempt)
        except UnsupportedVersion:
            if not require_stable:
                raise
            # Brokers before 2.5 cannot wait for transactions; Kafka's clients then do without.
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
        """Commit, and again while that may help. Raises the first error of a partition."""
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
            response = await self._of_coordinator_commit(group_id, request, deadline_ms)
            answered: set[TopicPartition] = set()
            for topic in response.topics:
                for each in topic.partitions:
                    self._check_group(group_id, each.error_code)
                    answered.add(TopicPartition(topic.name, each.partition_index))
            for partition in offsets:
                if partition not in answered:
                    raise _silence(partition)

        if offsets:
            await self._cluster.retrying.until(deadline_ms, attempt, is_retriable=is_retriable)

    async def _of_coordinator(
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
            raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "no group in the answer")
        return response

    async def _of_coordinator_commit(
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
        if code in COORDINATOR_GONE:
            self._cluster.forget_coordinator(GROUP, group_id)
        raise error_for(code, f"group {group_id}: {meaning(code)}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    return by_topic


def _silence(partition: TopicPartition) -> KafkaError:
    """A broker was asked about a partition, and its answer does not speak of it."""
    text = f"{partition}: the broker says nothing about it"
    return error_for(ErrorCode.UNKNOWN_SERVER_ERROR, text)
