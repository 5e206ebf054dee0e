"""Groups that consume a topic, with their lag in it.

Note: brokers have no index of groups by topic. The members and offsets of every group are
requested, a few groups at a time and up to a limit.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from headwater.client.admin.descriptions import GroupListing
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition
from headwater.console.views.cluster_view import ClusterView
from headwater.console.views.groups import GROUPS_AT_ONCE
from headwater.console.views.topics import edges, known_topic

GROUPS_ASKED_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReaderGroup:
    """A group with committed offsets in the topic, or with a member assigned to it."""

    id: str
    state: str
    members: int
    """Members that have partitions of this topic assigned."""
    partitions: int
    """Partitions with a committed offset."""
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroups:
    """The topic's groups, largest lag first."""

    topic: str
    readers: tuple[TopicReaderGroup, ...]
    asked: int
    all_groups: int
    untold: int
    """Groups that could not be described."""


async def topic_groups(admin: Admin, cluster: ClusterView, topic: str) -> TopicGroups:
    known = known_topic(cluster, topic)
    places = [TopicPartition(topic, each.partition) for each in known.partitions]
    ends = {
        TopicPartition(topic, number): end
        for number, (_, end) in (await edges(admin, topic, known.partitions)).items()
    }
    listed = sorted(await admin.list_groups(), key=lambda each: each.group_id)
    gate = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def ask(group: GroupListing) -> TopicReaderGroup | KafkaError | None:
        async with gate:
            try:
                return await _reader(admin, group.group_id, places, ends)
            except KafkaError as error:
                return error

    requested = listed[:GROUPS_ASKED_MAX]
    results = await asyncio.gather(*map(ask, requested))
    readers = [each for each in results if isinstance(each, TopicReaderGroup)]
    return TopicGroups(
        topic=topic,
        readers=tuple(sorted(readers, key=lambda each: (-each.lag, each.id))),
        asked=len(requested),
        all_groups=len(listed),
        untold=sum(isinstance(each, KafkaError) for each in results),
    )


async def _reader(
    admin: Admin, group_id: str, places: list[TopicPartition], ends: dict[TopicPartition, int]
) -> TopicReaderGroup | None:
    committed = await admin.list_group_offsets(group_id, places)
    described = (await admin.describe_groups([group_id]))[group_id]
    wanted = frozenset(places)
    members = sum(not wanted.isdisjoint(each.assignment) for each in described.members)
    if not committed and not members:
        return None
    return TopicReaderGroup(
        id=group_id,
        state=described.state,
        members=members,
        partitions=len(committed),
        lag=sum(
            max(ends[place] - results.offset, 0)
            for place, results in committed.items()
            if place in ends
        ),
    )
