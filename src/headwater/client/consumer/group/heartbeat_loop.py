"""Run a group member: send its requests and fetch the metadata that it needs.

A separate task, independent of polls, so that a slow application stays in the group until
`max.poll.interval.ms`.

Note: a JoinGroup may take minutes, and a broker answers requests of a connection in order. So the
member has a connection of its own; other requests to the coordinator use another one.
"""

import asyncio
from collections.abc import Callable

from headwater.client.consumer.group.classic_member import ClassicMember
from headwater.client.consumer.group.consumer_member import ConsumerMember
from headwater.client.consumer.group.member import CoordinatorRequest
from headwater.client.consumer.group.member_factory import Member
from headwater.client.errors import KafkaError
from headwater.client.network.cluster_client import GROUP, ClusterClient
from headwater.common.ids import TopicId
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

_ROLE = "group"


class HeartbeatLoop:
    """Sends heartbeats on the loop's thread; calls `changed` after possible events."""

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        member: Member,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._changed = changed
        self._kicked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.member = member

    def wake_up(self) -> None:
        """Let the member act now on a change."""
        if self._task is None:
            self._task = self._cluster.loop.create_task(self._run())
        self._kicked.set()

    def try_poll(self, now_ms: int) -> bool:
        """Count a poll as liveness; False if the member has an event or must act."""
        member = self.member
        if (
            self._task is None
            or member.is_stale
            or member.failure is not None
            or member.rebalance is not None
        ):
            return False
        member.polled(now_ms)
        return True

    def metadata_changed(self) -> None:
        topics = self._cluster.metadata.topics
        match self.member:
            case ClassicMember():
                self.member.partition_counts_seen(
                    {name: len(view.partitions) for name, view in topics.items()}
                )
            case ConsumerMember():
                self.member.names_seen({view.topic_id: name for name, view in topics.items()})
        if self._task is not None:
            self.wake_up()

    async def close(self, *, deadline_ms: int) -> None:
        """Stop the task and leave the group, if there is time."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None
        outgoing = self.member.leave()
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        if outgoing is None or left_ms <= 0:
            return
        try:
            node_id = await self._cluster.coordinator(
                GROUP, self._group_id, deadline_ms=deadline_ms
            )
            # Not on the member's connection, where a JoinGroup may still be waiting.
            await self._cluster.call(
                node_id, outgoing.request, outgoing.response, timeout_ms=left_ms
            )
        except KafkaError:
            # The session will expire instead.
            return

    async def _run(self) -> None:
        while True:
            self._kicked.clear()
            try:
                await self._prepare()
            except KafkaError as error:
                self.member.handle_error(error, self._now_ms())
            outgoing = self.member.next_request(self._now_ms())
            if outgoing is not None:
                await self._send(outgoing)
                self._changed()
                continue
            wait_ms = self.member.wake_at_ms(self._now_ms()) - self._now_ms()
            try:
                async with asyncio.timeout(max(wait_ms, 1) / 1000):
                    await self._kicked.wait()
            except TimeoutError:
                continue

    async def _send(self, outgoing: CoordinatorRequest) -> None:
        cluster, member = self._cluster, self.member
        deadline_ms = self._now_ms() + cluster.settings.request_timeout_ms
        try:
            node_id = await cluster.coordinator(GROUP, self._group_id, deadline_ms=deadline_ms)
            response = await cluster.call(
                node_id,
                outgoing.request,
                outgoing.response,
                timeout_ms=outgoing.timeout_ms,
                role=_ROLE,
            )
        except KafkaError as error:
            member.handle_error(error, self._now_ms())
        else:
            member.handle_response(response, self._now_ms())
        if member.has_lost_coordinator:
            cluster.forget_coordinator(GROUP, self._group_id)

    async def _prepare(self) -> None:
        """Fetch metadata that the member is waiting for."""
        match self.member:
            case ClassicMember():
                if (topics := self.member.topics_to_assign) is not None:
                    counts = await self._partition_counts(topics)
                    self.member.assign(counts, self._cluster.metadata.racks_of(topics))
            case ConsumerMember():
                if unknown := self.member.unknown_topic_ids:
                    self.member.names_seen(await self._names(unknown))

    async def _partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        cluster = self._cluster
        missing = [topic for topic in sorted(topics) if cluster.use_topic(topic) is None]
        if missing:
            await cluster.refresh(deadline_ms=self._now_ms() + cluster.settings.request_timeout_ms)
        known = cluster.metadata.topics
        return {
            topic: len(known[topic].partitions)
            for topic in topics
            if topic in known and known[topic].partitions
        }

    async def _names(self, topic_ids: frozenset[TopicId]) -> dict[TopicId, str]:
        """Look up names of topics that only the broker's pattern matching has found."""
        cluster = self._cluster
        request = MetadataRequest(
            topics=tuple(
                MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)
            ),
            allow_auto_topic_creation=False,
        )
        deadline_ms = self._now_ms() + cluster.settings.request_timeout_ms
        response = await cluster.call_any(request, MetadataResponse, deadline_ms=deadline_ms)
        names = {each.topic_id: each.name for each in response.topics if each.name}
        for name in names.values():
            cluster.use_topic(name)
        return names

    def _now_ms(self) -> int:
        return self._cluster.clock.steady_ms()
