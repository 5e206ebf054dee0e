"""Reassignments in progress and the metadata quorum."""

from dataclasses import dataclass

from headwater.client.admin.quorum_calls import QuorumInfo, QuorumReplica
from headwater.client.aio import Admin
from headwater.client.errors import UnsupportedVersion
from headwater.common.ids import TopicPartition
from headwater.console.views.cluster_view import ClusterView
from headwater.console.views.paging import Page, page_of
from headwater.console.views.security import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentRow:
    """A partition that moves. `copied` of `wanted` bytes are on the added brokers."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: int | None
    wanted_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentList:
    """A page of the reassignments; `problem` if they cannot be listed."""

    reassignments: Page[ReassignmentRow]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplicaRow:
    """A replica of the metadata log. Unknown times are None."""

    id: int
    role: str
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """The metadata quorum; no `replicas` in a cluster without KRaft."""

    leader: int | None
    epoch: int | None
    high_watermark: int | None
    replicas: tuple[QuorumReplicaRow, ...]
    controller: int | None
    is_kraft: bool
    problem: str | None


async def reassignment_list(
    admin: Admin, cluster: ClusterView, *, page: int, size: int
) -> ReassignmentList:
    found, problem = await listed(admin.list_partition_reassignments)
    rows = []
    for place, each in sorted((found or {}).items()):
        copied, wanted = _progress(cluster, place, each.adding_replicas)
        rows.append(
            ReassignmentRow(
                topic=place.topic,
                partition=place.partition,
                replicas=each.replicas,
                adding=each.adding_replicas,
                removing=each.removing_replicas,
                copied_bytes=copied,
                wanted_bytes=wanted,
            )
        )
    return ReassignmentList(reassignments=page_of(rows, page=page, size=size), problem=problem)


async def quorum_view(admin: Admin, cluster: ClusterView) -> QuorumView:
    controller = cluster.description.controller_id
    known = controller if controller >= 0 else None

    async def ask() -> QuorumInfo | None:
        try:
            return await admin.describe_metadata_quorum()
        except UnsupportedVersion:
            return None

    found, problem = await listed(ask)
    if found is None:
        return QuorumView(
            leader=None,
            epoch=None,
            high_watermark=None,
            replicas=(),
            controller=known,
            is_kraft=problem is not None,
            problem=problem,
        )
    return QuorumView(
        leader=found.leader_id,
        epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        replicas=quorum_rows(found),
        controller=known,
        is_kraft=True,
        problem=None,
    )


def quorum_rows(quorum: QuorumInfo) -> tuple[QuorumReplicaRow, ...]:
    """Voters, then observers, with their lag behind the leader."""
    every = [*quorum.voters, *quorum.observers]
    end = next(
        (each.log_end_offset for each in every if each.replica_id == quorum.leader_id),
        max((each.log_end_offset for each in every), default=0),
    )

    def row(each: QuorumReplica, role: str) -> QuorumReplicaRow:
        is_leader = each.replica_id == quorum.leader_id
        return QuorumReplicaRow(
            id=each.replica_id,
            role="leader" if is_leader else role,
            log_end_offset=each.log_end_offset,
            lag=max(end - each.log_end_offset, 0),
            last_fetch_ms=_time(each.last_fetch_timestamp),
            last_caught_up_ms=_time(each.last_caught_up_timestamp),
            endpoints=tuple(map(str, each.endpoints)),
        )

    return (
        *(row(each, "voter") for each in quorum.voters),
        *(row(each, "observer") for each in quorum.observers),
    )


def _time(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


def _progress(
    cluster: ClusterView, place: TopicPartition, adding: tuple[int, ...]
) -> tuple[int | None, int | None]:
    topic = cluster.topics.get(place.topic)
    views = (
        [each for each in topic.partitions if each.partition == place.partition] if topic else []
    )
    if not views or not adding:
        return None, None
    whole = _size(cluster, views[0].leader_id, place)
    if whole is None:
        return None, None
    # A replica can be larger than the leader's, which may have deleted segments since.
    copied = sum(min(_size(cluster, node_id, place) or 0, whole) for node_id in adding)
    return copied, whole * len(adding)


def _size(cluster: ClusterView, node_id: int, place: TopicPartition) -> int | None:
    sizes = [
        directory.replicas[place].size_bytes
        for directory in cluster.log_dirs.get(node_id, [])
        if place in directory.replicas
    ]
    return max(sizes) if sizes else None
