"""Consumer groups of API v3: members, assignments and lag."""

from dataclasses import dataclass
from typing import Any

from headwater.client.admin.descriptions import GroupDescription, MemberDescription
from headwater.client.consumer.auto_offset_reset import LATEST_TIMESTAMP
from headwater.client.errors import GroupIdNotFound, SomeFailed
from headwater.common.ids import TopicPartition
from headwater.rest.rest_errors import RestProxyError
from headwater.rest.rest_request import RestRequest
from headwater.rest.v3.resources import ClusterScope, Json

_CONSUMER_PROTOCOLS = ("consumer", "")
"""Protocol types of groups of consumers; the second one has only committed offsets."""
_DEAD = "Dead"


async def list_groups(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    names = [
        each.group_id
        for each in await scope.admin.list_groups()
        if each.protocol_type in _CONSUMER_PROTOCOLS
    ]
    try:
        found = await scope.admin.describe_groups(names)
    except SomeFailed as error:
        # A group may have been deleted in between.
        found = dict(error.results)
    data = [_group(scope, found[name]) for name in sorted(found)]
    return scope.listing("KafkaConsumerGroupList", ["consumer-groups"], data)


async def get_group(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    return _group(scope, await _found_group(scope))


async def list_consumers(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    data = [_consumer(scope, group, each) for each in group.members]
    path = ["consumer-groups", group.group_id, "consumers"]
    return scope.listing("KafkaConsumerList", path, data)


async def get_consumer(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    return _consumer(scope, group, _found_member(group, request.parts[2]))


async def list_assignments(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    member = _found_member(group, request.parts[2])
    data = [_assignment(scope, group, member, each) for each in sorted(member.assignment)]
    path = ["consumer-groups", group.group_id, "consumers", member.member_id, "assignments"]
    return scope.listing("KafkaConsumerAssignmentList", path, data)


async def get_assignment(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    member = _found_member(group, request.parts[2])
    place = TopicPartition(request.parts[3], request.number(4))
    if place not in member.assignment:
        raise RestProxyError(404, f"Consumer {member.member_id} is not assigned {place}.")
    return _assignment(scope, group, member, place)


async def list_lags(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    lags = await _lags(scope, group)
    data = [_lag(scope, group, each) for each in lags]
    path = ["consumer-groups", group.group_id, "lags"]
    return scope.listing("KafkaConsumerLagList", path, data)


async def get_lag(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    place = TopicPartition(request.parts[2], request.number(3))
    for each in await _lags(scope, group):
        if each.place == place:
            return _lag(scope, group, each)
    raise RestProxyError(404, f"Consumer group {group.group_id} has no offset of {place}.")


async def get_lag_summary(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    group = await _found_group(scope)
    lags = await _lags(scope, group)
    if not lags:
        raise RestProxyError(404, f"Consumer group {group.group_id} has no offsets.")
    # The first one of several with the same lag.
    largest = max(lags, key=lambda each: each.lag)
    path = ["consumer-groups", group.group_id]
    consumer_id = largest.member.member_id if largest.member else ""
    return scope.resource(
        "KafkaConsumerGroupLagSummary",
        [*path, "lag-summary"],
        f"consumer-group={group.group_id}/lag-summary",
        consumer_group_id=group.group_id,
        max_lag_consumer_id=consumer_id,
        max_lag_instance_id=largest.member.group_instance_id if largest.member else None,
        max_lag_client_id=largest.member.client_id if largest.member else "",
        max_lag_topic_name=largest.place.topic,
        max_lag_partition_id=largest.place.partition,
        max_lag=largest.lag,
        total_lag=sum(each.lag for each in lags),
        max_lag_consumer=scope.related(*path, "consumers", consumer_id),
        max_lag_partition=scope.related(
            "topics", largest.place.topic, "partitions", largest.place.partition
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionLag:
    """The committed offset of a group in a partition, and the partition's end."""

    place: TopicPartition
    committed: int
    end: int
    member: MemberDescription | None

    @property
    def lag(self) -> int:
        return max(self.end - self.committed, 0)


async def _found_group(scope: ClusterScope) -> GroupDescription:
    """The group in the path; 404 if it does not exist."""
    name = scope.request.parts[1]
    missing = RestProxyError(404, f"Consumer group {name} cannot be found.")
    try:
        found = (await scope.admin.describe_groups([name]))[name]
    except SomeFailed as error:
        if isinstance(next(iter(error.errors.values())), GroupIdNotFound):
            raise missing from error
        raise
    except GroupIdNotFound as error:
        raise missing from error
    if found.state == _DEAD:
        # Old brokers describe an unknown group as dead.
        raise missing
    return found


def _found_member(group: GroupDescription, member_id: str) -> MemberDescription:
    for each in group.members:
        if each.member_id == member_id:
            return each
    raise RestProxyError(404, f"Consumer {member_id} cannot be found.")


async def _lags(scope: ClusterScope, group: GroupDescription) -> list[_PartitionLag]:
    committed = await scope.admin.list_group_offsets(group.group_id)
    try:
        ends = await scope.admin.list_offsets(dict.fromkeys(committed, LATEST_TIMESTAMP))
    except SomeFailed as error:
        # Offsets outlive a deleted topic for a while.
        ends = dict(error.results)
    owners = {place: each for each in group.members for place in each.assignment}
    return [
        _PartitionLag(
            place=place,
            committed=committed[place].offset,
            end=ends[place].offset,
            member=owners.get(place),
        )
        for place in sorted(committed)
        if place in ends
    ]


def _group(scope: ClusterScope, group: GroupDescription) -> Json:
    path = ["consumer-groups", group.group_id]
    return scope.resource(
        "KafkaConsumerGroup",
        path,
        f"consumer-group={group.group_id}",
        consumer_group_id=group.group_id,
        is_simple=group.protocol_type == "",
        partition_assignor=group.assignor,
        state=_constant(group.state),
        type=_constant(group.type),
        is_mixed_consumer_group=False,
        # The admin client does not report the coordinator: the link leads to all brokers.
        coordinator=scope.related("brokers"),
        consumers=scope.related(*path, "consumers"),
        lag_summary=scope.related(*path, "lag-summary"),
    )


def _constant(text: str) -> str:
    """`PreparingRebalance` as `PREPARING_REBALANCE`."""
    found = "".join(f"_{each}" if each.isupper() else each for each in text)
    return found.removeprefix("_").upper() or "UNKNOWN"


def _consumer(scope: ClusterScope, group: GroupDescription, member: MemberDescription) -> Json:
    path = ["consumer-groups", group.group_id, "consumers", member.member_id]
    return scope.resource(
        "KafkaConsumer",
        path,
        f"consumer-group={group.group_id}/consumer={member.member_id}",
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=scope.related(*path, "assignments"),
    )


def _assignment(
    scope: ClusterScope, group: GroupDescription, member: MemberDescription, place: TopicPartition
) -> Json:
    place_path = [place.topic, "partitions", place.partition]
    path = ["consumer-groups", group.group_id]
    return scope.resource(
        "KafkaConsumerAssignment",
        [*path, "consumers", member.member_id, "assignments", *place_path],
        f"consumer-group={group.group_id}/consumer={member.member_id}"
        f"/assignment={place.topic}/partition={place.partition}",
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        topic_name=place.topic,
        partition_id=place.partition,
        partition=scope.related("topics", *place_path),
        lag=scope.related(*path, "lags", *place_path),
    )


def _lag(scope: ClusterScope, group: GroupDescription, lag: _PartitionLag) -> Json:
    place, member = lag.place, lag.member
    return scope.resource(
        "KafkaConsumerLag",
        ["consumer-groups", group.group_id, "lags", place.topic, "partitions", place.partition],
        f"consumer-group={group.group_id}/lag={place.topic}/partition={place.partition}",
        consumer_group_id=group.group_id,
        topic_name=place.topic,
        partition_id=place.partition,
        consumer_id=member.member_id if member else "",
        instance_id=member.group_instance_id if member else None,
        client_id=member.client_id if member else "",
        current_offset=lag.committed,
        log_end_offset=lag.end,
        lag=lag.lag,
    )
