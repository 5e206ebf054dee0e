"""Collect the data of each page, one function per page.

The same data is rendered as HTML and returned as JSON.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import headwater
from headwater.client.admin.descriptions import ConfigResource
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import bad_request, not_found
from headwater.console.context import ConsoleRequest
from headwater.console.form_fields import whole
from headwater.console.offset_reset_plan import WAYS, ResetPlan, merged_logs, planned_rows
from headwater.console.times import read_time
from headwater.console.views.charts import (
    broker_charts,
    brokers_charts,
    group_charts,
    overview_charts,
    topic_charts,
)
from headwater.console.views.cluster_view import ClusterView, is_offline
from headwater.console.views.configs import config_rows
from headwater.console.views.groups import (
    GROUP_SORTS,
    GroupDetail,
    GroupList,
    described_group,
    group_detail,
    group_lags,
    group_list,
    has_leader,
)
from headwater.console.views.live_tail import TailRequest
from headwater.console.views.messages import (
    RECORDS_PER_TOPIC_MAX,
    TOPICS_MAX,
    MessageList,
    merged,
)
from headwater.console.views.operations import (
    QuorumView,
    ReassignmentList,
    quorum_view,
    reassignment_list,
)
from headwater.console.views.overview import (
    BrokerDetail,
    BrokerList,
    Overview,
    broker_rows,
    disk_rows,
    overview,
)
from headwater.console.views.pipelines import RunDetail, RunList
from headwater.console.views.record_decoder import FORMATS
from headwater.console.views.record_filter import PLACES
from headwater.console.views.record_pages import read_cursor
from headwater.console.views.record_search import Search
from headwater.console.views.records import (
    WHOLE_CHARS_MAX,
    RawBytes,
    RecordDetail,
    RecordList,
    RecordQuery,
    filter_of,
    older_and_newer,
    one_record,
    record_rows,
)
from headwater.console.views.schemas import (
    SchemaDetail,
    SubjectList,
    expect_registry,
    schema_detail,
    subject_list,
)
from headwater.console.views.security import (
    AclList,
    QuotaList,
    UserList,
    acl_list,
    quota_list,
    user_list,
)
from headwater.console.views.topic_groups import TopicGroups, topic_groups
from headwater.console.views.topics import (
    SORTS,
    TopicDetail,
    TopicList,
    edges,
    known_topic,
    topic_detail,
    topic_list,
)
from headwater.console.views.transactions import TransactionsView, transactions
from headwater.pipelines.run.run_records import TOPIC
from headwater.records.consumer_record import ConsumerRecord

STARTS: Final = ("newest", "oldest", "offset", "time")
RECORDS_MAX: Final = 200

_END: Final = -1
_START: Final = -2


async def read_overview(call: ConsoleRequest) -> Overview:
    cluster, sampler = await call.cluster_view(), call.console.sampler
    return overview(
        cluster,
        await call.admin.describe_features(),
        bootstrap=call.console.connections.bootstrap,
        version=headwater.__version__,
        charts=overview_charts(
            sampler.history,
            problems=sampler.problems,
            has_metrics=sampler.has_metrics,
            groups_left_out=sampler.groups_left_out,
        ),
        is_read_only=call.is_read_only,
    )


async def read_brokers(call: ConsoleRequest) -> BrokerList:
    return BrokerList(
        brokers=broker_rows(await call.cluster_view()),
        charts=brokers_charts(call.console.sampler.history),
    )


async def read_broker(call: ConsoleRequest) -> BrokerDetail:
    return await _broker(call, ConfigResource.broker)


async def read_loggers(call: ConsoleRequest) -> BrokerDetail:
    return await _broker(call, ConfigResource.loggers)


async def _broker(
    call: ConsoleRequest, resource_of: Callable[[int], ConfigResource]
) -> BrokerDetail:
    cluster = await call.cluster_view()
    found = {str(each.id): each for each in broker_rows(cluster)}.get(call.parts[0])
    if found is None or found.is_missing:
        raise not_found(f"Broker {call.parts[0]} is not running.")
    resource = resource_of(found.id)
    configs = (await call.admin.describe_configs([resource]))[resource]
    return BrokerDetail(
        broker=found,
        disks=disk_rows(cluster, found.id),
        configs=config_rows(configs.values()),
        charts=broker_charts(call.console.sampler.history, found.id),
    )


async def read_topics(call: ConsoleRequest) -> TopicList:
    return await topic_list(
        call.admin,
        await call.cluster_view(),
        search=call.query.get("search", "").strip(),
        sort=call.choice("sort", SORTS),
        with_internal=call.is_set("internal"),
        page=call.page(),
        size=call.size(),
    )


async def read_topic(call: ConsoleRequest) -> TopicDetail:
    cluster = await call.cluster_view(call.parts[0])
    return await topic_detail(
        call.admin,
        cluster,
        call.parts[0],
        page=call.page(),
        size=call.size(),
        charts=topic_charts(call.console.sampler.history, call.parts[0]),
    )


async def read_records(call: ConsoleRequest) -> RecordList:
    topic, query = call.parts[0], record_query(call)
    known = known_topic(await call.cluster_view(topic), topic)
    numbers = chosen_partitions(call, len(known.partitions))
    views = [each for each in known.partitions if each.partition in numbers]
    found_edges = await edges(call.admin, topic, views)
    search = await _search(call, query, found_edges)
    found = await call.console.searches.find(search)
    older, newer = older_and_newer(found.page, found.edges)
    rows = await record_rows(
        call.console.connections,
        found.page.records,
        key_format=query.key_format,
        value_format=query.value_format,
    )
    return RecordList(
        topic=topic,
        partitions=len(known.partitions),
        records=rows,
        older=older,
        newer=newer,
        looked_at=found.looked_at,
        ended_early=found.ended_early,
        offline=tuple(each.partition for each in views if is_offline(each)),
        wish=query,
    )


async def read_messages(call: ConsoleRequest) -> MessageList:
    """The newest records of up to five topics."""
    given = [call.query.get(f"topic{each}", "").strip() for each in range(TOPICS_MAX)]
    chosen = tuple(dict.fromkeys(filter(None, given)))
    cluster = await call.cluster_view(*chosen)
    limit = call.number("limit", 10)
    if not 1 <= limit <= RECORDS_PER_TOPIC_MAX:
        raise bad_request(f"'limit' must be 1 to {RECORDS_PER_TOPIC_MAX}.")
    query = RecordQuery(limit=limit, filter=call.query.get("filter", ""))
    found, looked_at, ended_early = [], 0, []
    # One after the other: each is a search, of which the console runs only a few at once.
    for topic in chosen:
        edges_of = await edges(call.admin, topic, known_topic(cluster, topic).partitions)
        search = await _search(replace(call, parts=(topic,)), query, edges_of)
        result = await call.console.searches.find(search)
        rows = await record_rows(
            call.console.connections, result.page.records, key_format="auto", value_format="auto"
        )
        found.append((topic, rows))
        looked_at += result.looked_at
        if result.ended_early:
            ended_early.append(topic)
    return MessageList(
        topics=chosen,
        all_topics=tuple(name for name in sorted(cluster.topics)),
        messages=merged(found),
        filter=query.filter,
        limit=limit,
        looked_at=looked_at,
        ended_early=tuple(ended_early),
    )


def record_query(call: ConsoleRequest) -> RecordQuery:
    partition = call.query.get("partition", "").strip()
    limit = call.number("limit", 50)
    if not 1 <= limit <= RECORDS_MAX:
        raise bad_request(f"'limit' must be 1 to {RECORDS_MAX}.")
    return RecordQuery(
        start=call.choice("start", STARTS),
        at=call.query.get("at", "").strip(),
        partition=whole(partition, "partition") if partition else None,
        limit=limit,
        filter=call.query.get("filter", ""),
        within=call.choice("within", PLACES),
        key_format=call.choice("key_format", FORMATS),
        value_format=call.choice("value_format", FORMATS),
        committed_only=call.is_set("committed"),
    )


async def _search(
    call: ConsoleRequest, query: RecordQuery, found_edges: dict[int, tuple[int, int]]
) -> Search:
    """Start where an earlier page ended, or where the query says."""
    after: dict[int, int] | None = None
    before: dict[int, int] | None = None
    if call.query.get("after"):
        after = read_cursor(call.query["after"])
    elif call.query.get("before"):
        before = read_cursor(call.query["before"])
    elif query.start == "newest":
        before = {}
    elif query.start == "oldest":
        after = {}
    elif query.start == "offset":
        after = dict.fromkeys(found_edges, max(whole(query.at, "at"), 0))
    else:
        after = await _offsets_at(call, read_time(query.at), found_edges)
    return Search(
        topic=call.parts[0],
        edges=found_edges,
        limit=query.limit,
        word=filter_of(
            call.console.connections,
            query.filter,
            place=query.within,
            key_format=query.key_format,
            value_format=query.value_format,
        ),
        committed_only=query.committed_only,
        after=after,
        before=before,
    )


async def _offsets_at(
    call: ConsoleRequest, timestamp_ms: int, found_edges: dict[int, tuple[int, int]]
) -> dict[int, int]:
    places = {TopicPartition(call.parts[0], number): timestamp_ms for number in found_edges}
    found = await call.admin.list_offsets(places) if places else {}
    return {
        place.partition: listed.offset if listed.offset >= 0 else found_edges[place.partition][1]
        for place, listed in found.items()
    }


def chosen_partitions(call: ConsoleRequest, count: int) -> tuple[int, ...]:
    wanted = record_query(call).partition
    if wanted is None:
        return tuple(range(count))
    if not 0 <= wanted < count:
        raise not_found(f"'{call.parts[0]}' has no partition {wanted}.")
    return (wanted,)


async def read_record(call: ConsoleRequest) -> RecordDetail:
    topic, query = call.parts[0], record_query(call)
    record, (start, end) = await _found_record(call)
    rows = await record_rows(
        call.console.connections,
        [record],
        key_format=query.key_format,
        value_format=query.value_format,
        chars_max=WHOLE_CHARS_MAX,
    )
    return RecordDetail(
        topic=topic,
        record=rows[0],
        previous=record.offset - 1 if record.offset > start else None,
        next=record.offset + 1 if record.offset + 1 < end else None,
        key_format=query.key_format,
        value_format=query.value_format,
    )


async def read_raw_key(call: ConsoleRequest) -> RawBytes:
    record, _ = await _found_record(call)
    return _raw(call, "key", record.key)


async def read_raw_value(call: ConsoleRequest) -> RawBytes:
    record, _ = await _found_record(call)
    return _raw(call, "value", record.value)


def _raw(call: ConsoleRequest, what: str, content: bytes | None) -> RawBytes:
    if content is None:
        raise not_found(f"The {what} of this record is null.")
    # Topic names are valid file names.
    return RawBytes(content=content, file_name=f"{'-'.join(call.parts)}.{what}")


async def _found_record(call: ConsoleRequest) -> tuple[ConsumerRecord, tuple[int, int]]:
    """A record, and the first and end offset of its partition."""
    topic, partition, offset = call.parts
    known = known_topic(await call.cluster_view(topic), topic)
    number, wanted = whole(partition, "partition"), whole(offset, "offset")
    views = [each for each in known.partitions if each.partition == number]
    if not views:
        raise not_found(f"'{topic}' has no partition {number}.")
    start, end = (await edges(call.admin, topic, views)).get(number, (0, 0))
    if start == end:
        raise not_found(f"{topic}-{number} has no records.")
    if not start <= wanted < end:
        raise not_found(f"{topic}-{number} has offsets {start} to {end - 1}, not {wanted}.")
    place = TopicPartition(topic, number)
    return await one_record(call.console.connections, place, wanted), (start, end)


async def read_tail(call: ConsoleRequest) -> TailRequest:
    topic, query = call.parts[0], record_query(call)
    known = known_topic(await call.cluster_view(topic), topic)
    numbers = chosen_partitions(call, len(known.partitions))
    return TailRequest(
        topic=topic,
        # A partition without a leader would block the others.
        partitions=tuple(
            each.partition
            for each in known.partitions
            if each.partition in numbers and not is_offline(each)
        ),
        filter=query.filter,
        within=query.within,
        key_format=query.key_format,
        value_format=query.value_format,
        committed_only=query.committed_only,
    )


async def read_topic_groups(call: ConsoleRequest) -> TopicGroups:
    cluster = await call.cluster_view(call.parts[0])
    return await topic_groups(call.admin, cluster, call.parts[0])


async def read_groups(call: ConsoleRequest) -> GroupList:
    return await group_list(
        call.admin,
        await call.cluster_view(),
        search=call.query.get("search", "").strip(),
        state=call.query.get("state", ""),
        sort=call.choice("sort", GROUP_SORTS),
        page=call.page(),
        size=call.size(),
    )


async def read_group(call: ConsoleRequest) -> GroupDetail:
    cluster = await call.cluster_view()
    return await group_detail(
        call.admin,
        cluster,
        call.parts[0],
        page=call.page(),
        size=call.size(),
        charts=group_charts(call.console.sampler.history, call.parts[0]),
    )


async def read_reset(call: ConsoleRequest) -> ResetPlan:
    """Preview a reset. Nothing is changed."""
    group, topic, way = call.parts[0], call.query.get("topic", ""), call.choice("to", WAYS)
    cluster = await call.cluster_view(*([topic] if topic else []))
    value = call.query.get("value", "").strip()
    described = await described_group(call.admin, group)
    lags = await group_lags(call.admin, cluster, described)
    before = {
        TopicPartition(each.topic, each.partition): each.offset
        for each in lags
        if each.offset is not None
    }
    places = _reset_places(cluster, topic, before)
    number = whole(value, "value") if way in ("offset", "shift") else 0
    time_ms = read_time(value) if way == "time" else None
    logs = merged_logs(
        places,
        starts=await _offsets(call, places, _START),
        ends=await _offsets(call, places, _END),
        before=before,
        at_time={} if time_ms is None else await _offsets(call, places, time_ms),
    )
    return ResetPlan(
        group=group,
        topic=topic,
        way=way,
        value=value,
        rows=planned_rows(logs, way, number),
        is_empty=not described.members,
    )


def _reset_places(
    cluster: ClusterView, topic: str, before: dict[TopicPartition, int]
) -> list[TopicPartition]:
    """All partitions of the topic; without a topic, those with committed offsets."""
    if topic:
        known = known_topic(cluster, topic)
        places = [TopicPartition(topic, each.partition) for each in known.partitions]
    else:
        places = sorted(before)
    return [place for place in places if has_leader(cluster, place)]


async def _offsets(
    call: ConsoleRequest, places: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    found = await call.admin.list_offsets(dict.fromkeys(places, timestamp)) if places else {}
    return {place: listed.offset for place, listed in found.items()}


async def read_transactions(call: ConsoleRequest) -> TransactionsView:
    return await transactions(
        call.admin,
        await call.cluster_view(),
        search=call.query.get("search", "").strip(),
        page=call.page(),
        size=call.size(),
        now_ms=call.console.clock.now_ms(),
    )


async def read_reassignments(call: ConsoleRequest) -> ReassignmentList:
    return await reassignment_list(
        call.admin, await call.cluster_view(), page=call.page(), size=call.size()
    )


async def read_quorum(call: ConsoleRequest) -> QuorumView:
    return await quorum_view(call.admin, await call.cluster_view())


async def read_acls(call: ConsoleRequest) -> AclList:
    return await acl_list(call.admin, search=_search_text(call), page=call.page(), size=call.size())


async def read_users(call: ConsoleRequest) -> UserList:
    return await user_list(
        call.admin, search=_search_text(call), page=call.page(), size=call.size()
    )


async def read_quotas(call: ConsoleRequest) -> QuotaList:
    return await quota_list(
        call.admin, search=_search_text(call), page=call.page(), size=call.size()
    )


def _search_text(call: ConsoleRequest) -> str:
    return call.query.get("search", "").strip()


async def read_pipelines(call: ConsoleRequest) -> RunList:
    if TOPIC not in (await call.cluster_view(TOPIC)).topics:
        return RunList(runs=())
    return await call.console.runs.list()


async def read_pipeline(call: ConsoleRequest) -> RunDetail:
    known_topic(await call.cluster_view(TOPIC), TOPIC)
    return await call.console.runs.detail(call.parts[0])


async def read_subjects(call: ConsoleRequest) -> SubjectList:
    connections = call.console.connections
    return await subject_list(
        expect_registry(connections.registry),
        connections.registry_url or "",
        search=call.query.get("search", "").strip(),
        page=call.page(),
        size=call.size(),
    )


async def read_schema(call: ConsoleRequest) -> SchemaDetail:
    registry = expect_registry(call.console.connections.registry)
    version = call.query.get("version") or "latest"
    if version != "latest":
        whole(version, "version")
    return await schema_detail(registry, call.parts[0], version)
