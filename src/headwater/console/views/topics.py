"""Topics: the list, and one topic with its partitions and configs."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from headwater.client.admin.descriptions import ConfigResource, TopicDescription
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError, TopicAuthorizationFailed
from headwater.client.network.cluster_metadata import PartitionView
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import not_found
from headwater.console.views.charts import Charts
from headwater.console.views.cluster_view import ClusterView, is_offline, is_under_replicated
from headwater.console.views.configs import ConfigRow, config_rows
from headwater.console.views.paging import Page, page_of

SORTS: Final = ("name", "partitions", "size")
PARTITIONS_COUNTED_MAX: Final = 5_000
"""Limit of partitions whose offsets one page requests."""

_END: Final = -1
_START: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic in the list; `records` counts offsets, including gaps and markers."""

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    log_bytes: int | None
    records: int | None
    offline: int
    under_replicated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """A page of the matching topics."""

    topics: Page[TopicRow]
    search: str
    sort: str
    with_internal: bool
    all_topics: int
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition; its offsets are None while it has no leader."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None
    end: int | None
    records: int | None
    log_bytes: int | None
    is_under_replicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail:
    topic: TopicRow
    topic_id: str
    partitions: Page[PartitionRow]
    configs: tuple[ConfigRow, ...]
    charts: Charts


async def topic_list(
    admin: Admin,
    cluster: ClusterView,
    *,
    search: str,
    sort: str,
    with_internal: bool,
    page: int,
    size: int,
) -> TopicList:
    sizes = cluster.sizes()
    rows = [
        _row(topic, sizes)
        for name, topic in sorted(cluster.topics.items())
        if search.lower() in name.lower() and (with_internal or not topic.is_internal)
    ]
    if sort == "partitions":
        rows.sort(key=lambda row: -row.partitions)
    elif sort == "size":
        rows.sort(key=lambda row: -(row.log_bytes or 0))
    found = page_of(rows, page=page, size=size)
    counts = await _record_counts(admin, [cluster.topics[row.name] for row in found.rows])
    counted = tuple(_counted(row, counts) for row in found.rows)
    return TopicList(
        topics=Page(rows=counted, page=found.page, size=found.size, total=found.total),
        search=search,
        sort=sort,
        with_internal=with_internal,
        all_topics=len(cluster.topics),
        brokers=len(cluster.description.brokers),
    )


async def topic_detail(
    admin: Admin, cluster: ClusterView, name: str, *, page: int, size: int, charts: Charts
) -> TopicDetail:
    topic = known_topic(cluster, name)
    offsets = await edges(admin, name, topic.partitions)
    resource = ConfigResource.topic(name)
    try:
        configs = (await admin.describe_configs([resource]))[resource]
    except TopicAuthorizationFailed:
        # DescribeConfigs needs its own permission.
        configs = {}
    sizes = cluster.sizes()
    rows = [_partition_row(name, each, offsets, sizes) for each in topic.partitions]
    known = [row.records for row in rows if row.records is not None]
    counts = {name: sum(known)} if known else {}
    return TopicDetail(
        topic=_counted(_row(topic, sizes), counts),
        topic_id=str(topic.topic_id),
        partitions=page_of(rows, page=page, size=size),
        configs=config_rows(configs.values()),
        charts=charts,
    )


def known_topic(cluster: ClusterView, name: str) -> TopicDescription:
    topic = cluster.topics.get(name)
    if topic is None:
        raise not_found(f"There is no topic '{name}'.")
    return topic


async def edges(
    admin: Admin, name: str, partitions: Iterable[PartitionView]
) -> dict[int, tuple[int, int]]:
    """First and end offset of each partition that has a leader."""
    places = [TopicPartition(name, each.partition) for each in partitions if not is_offline(each)]
    starts, ends = await _edges(admin, places)
    return {place.partition: (starts[place], ends[place]) for place in places}


async def _edges(
    admin: Admin, places: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    if not places:
        return {}, {}
    starts = await admin.list_offsets(dict.fromkeys(places, _START))
    ends = await admin.list_offsets(dict.fromkeys(places, _END))
    return (
        {place: found.offset for place, found in starts.items()},
        {place: found.offset for place, found in ends.items()},
    )


async def _record_counts(admin: Admin, topics: list[TopicDescription]) -> dict[str, int]:
    """Number of offsets in each topic, for partitions that have a leader."""
    places: list[TopicPartition] = []
    for topic in topics:
        partitions = [
            TopicPartition(topic.name, each.partition)
            for each in topic.partitions
            if not is_offline(each)
        ]
        # Count all partitions of a topic, or none.
        if len(places) + len(partitions) <= PARTITIONS_COUNTED_MAX:
            places += partitions
    try:
        starts, ends = await _edges(admin, places)
    except KafkaError:
        # A topic was deleted or lost a leader meanwhile. Show the list without counts.
        return {}
    counts: dict[str, int] = {}
    for place in places:
        counts[place.topic] = counts.get(place.topic, 0) + ends[place] - starts[place]
    return counts


def _row(topic: TopicDescription, sizes: dict[TopicPartition, int]) -> TopicRow:
    known = [
        sizes[place]
        for each in topic.partitions
        if (place := TopicPartition(topic.name, each.partition)) in sizes
    ]
    return TopicRow(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replicas=max((len(each.replicas) for each in topic.partitions), default=0),
        log_bytes=sum(known) if known else None,
        records=None,
        offline=sum(map(is_offline, topic.partitions)),
        under_replicated=sum(
            is_under_replicated(each) and not is_offline(each) for each in topic.partitions
        ),
    )


def _counted(row: TopicRow, counts: dict[str, int]) -> TopicRow:
    return replace(row, records=counts.get(row.name))


def _partition_row(
    name: str,
    partition: PartitionView,
    offsets: dict[int, tuple[int, int]],
    sizes: dict[TopicPartition, int],
) -> PartitionRow:
    start, end = offsets.get(partition.partition, (None, None))
    return PartitionRow(
        partition=partition.partition,
        leader=None if is_offline(partition) else partition.leader_id,
        replicas=partition.replicas,
        isr=partition.isr,
        start=start,
        end=end,
        records=None if start is None or end is None else end - start,
        log_bytes=sizes.get(TopicPartition(name, partition.partition)),
        is_under_replicated=is_under_replicated(partition),
    )
