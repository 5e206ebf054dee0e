"""Consumer groups: the list, members of a group, and lag."""

import asyncio
from dataclasses import dataclass
from typing import Final

from headwater.client.admin.descriptions import GroupDescription, GroupListing, MemberDescription
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import bad_request, not_found
from headwater.console.views.charts import Charts
from headwater.console.views.cluster_view import ClusterView, is_offline
from headwater.console.views.paging import Page, page_of

GROUPS_AT_ONCE: Final = 8
MEMBERS_SHOWN_MAX: Final = 500
GROUP_SORTS: Final = ("name", "lag")
GROUPS_SORTED_MAX: Final = 500
"""Limit for sorting by lag, which requires a request per group."""

_DEAD: Final = "dead"
_END: Final = -1
_START: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group in the list. Unknown values are None, and `complaint` has the error."""

    id: str
    type: str
    state: str
    members: int | None = None
    topics: int | None = None
    lag: int | None = None
    complaint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """A page of the matching groups."""

    groups: Page[GroupRow]
    search: str
    state: str
    sort: str
    states: tuple[str, ...]
    all_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member and its assignment."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """Lag of a group in a partition. `end` is None if the partition has no leader."""

    topic: str
    partition: int
    offset: int | None
    start: int | None
    end: int | None
    lag: int | None
    client: str | None

    @property
    def is_beyond_the_end(self) -> bool:
        """The log was truncated or recreated: the next records will be skipped."""
        return self.offset is not None and self.end is not None and self.offset > self.end

    @property
    def has_missed_records(self) -> bool:
        """The next records were deleted before the group consumed them."""
        return self.offset is not None and self.start is not None and self.offset < self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    id: str
    type: str
    state: str
    assignor: str
    members: tuple[MemberRow, ...]
    all_members: int
    lags: Page[LagRow]
    lag: int
    topics: tuple[str, ...]
    charts: Charts

    @property
    def is_empty(self) -> bool:
        return self.all_members == 0


async def group_list(
    admin: Admin, cluster: ClusterView, *, search: str, state: str, sort: str, page: int, size: int
) -> GroupList:
    listed = await admin.list_groups()
    wanted = [
        each
        for each in sorted(listed, key=lambda one: one.group_id)
        if search.lower() in each.group_id.lower() and state.lower() in ("", each.state.lower())
    ]
    gate = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def row(group: GroupListing) -> GroupRow:
        async with gate:
            return await _row(admin, cluster, group)

    if sort == "lag":
        if len(wanted) > GROUPS_SORTED_MAX:
            raise bad_request(
                f"Cannot sort {len(wanted)} groups by lag, the maximum is {GROUPS_SORTED_MAX}. "
                "Narrow the search."
            )
        every = await asyncio.gather(*map(row, wanted))
        groups = page_of(sorted(every, key=lambda each: -(each.lag or 0)), page=page, size=size)
    else:
        found = page_of(wanted, page=page, size=size)
        rows = await asyncio.gather(*map(row, found.rows))
        groups = Page(rows=tuple(rows), page=found.page, size=found.size, total=found.total)
    return GroupList(
        groups=groups,
        search=search,
        state=state,
        sort=sort,
        states=tuple(sorted({each.state for each in listed})),
        all_groups=len(listed),
    )


async def _row(admin: Admin, cluster: ClusterView, group: GroupListing) -> GroupRow:
    """Describe one group. An error does not fail the whole list."""
    try:
        described = (await admin.describe_groups([group.group_id]))[group.group_id]
        lags = await group_lags(admin, cluster, described)
    except KafkaError as error:
        return GroupRow(id=group.group_id, type=group.type, state=group.state, complaint=str(error))
    return GroupRow(
        id=group.group_id,
        type=described.type,
        state=described.state,
        members=len(described.members),
        topics=len({each.topic for each in lags}),
        lag=sum(each.lag or 0 for each in lags),
    )


async def group_detail(
    admin: Admin, cluster: ClusterView, group_id: str, *, page: int, size: int, charts: Charts
) -> GroupDetail:
    described = await described_group(admin, group_id)
    lags = await group_lags(admin, cluster, described)
    return GroupDetail(
        id=group_id,
        type=described.type,
        state=described.state,
        assignor=described.assignor,
        members=tuple(map(_member, described.members[:MEMBERS_SHOWN_MAX])),
        all_members=len(described.members),
        lags=page_of(lags, page=page, size=size),
        lag=sum(each.lag or 0 for each in lags),
        topics=tuple(sorted({each.topic for each in lags})),
        charts=charts,
    )


async def described_group(admin: Admin, group_id: str) -> GroupDescription:
    described = (await admin.describe_groups([group_id]))[group_id]
    if described.state.lower() == _DEAD and not described.members:
        # Kafka describes a group that does not exist as dead.
        raise not_found(f"There is no group '{group_id}'.")
    return described


async def group_lags(admin: Admin, cluster: ClusterView, group: GroupDescription) -> list[LagRow]:
    """Partitions that have a committed offset or are assigned to a member."""
    committed = await admin.list_group_offsets(group.group_id)
    readers = {place: each.client_id for each in group.members for place in each.assignment}
    places = sorted({*committed, *readers})
    listable = [place for place in places if has_leader(cluster, place)]
    starts = await admin.list_offsets(dict.fromkeys(listable, _START)) if listable else {}
    ends = await admin.list_offsets(dict.fromkeys(listable, _END)) if listable else {}
    rows = []
    for place in places:
        offset = committed[place].offset if place in committed else None
        end = ends[place].offset if place in ends else None
        known = offset is not None and end is not None
        rows.append(
            LagRow(
                topic=place.topic,
                partition=place.partition,
                offset=offset,
                start=starts[place].offset if place in starts else None,
                end=end,
                lag=max((end or 0) - (offset or 0), 0) if known else None,
                client=readers.get(place),
            )
        )
    return rows


def has_leader(cluster: ClusterView, place: TopicPartition) -> bool:
    """Whether the partition's offsets can be listed; its topic may have been deleted."""
    topic = cluster.topics.get(place.topic)
    return topic is not None and any(
        each.partition == place.partition and not is_offline(each) for each in topic.partitions
    )


def _member(member: MemberDescription) -> MemberRow:
    return MemberRow(
        id=member.member_id,
        instance=member.group_instance_id,
        client=member.client_id,
        host=member.client_host,
        partitions=tuple(map(str, member.assignment)),
    )
