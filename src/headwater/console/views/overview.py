"""Overview of the cluster and its brokers, computed from a `ClusterView`. Pure."""

from dataclasses import dataclass

from headwater.client.admin.descriptions import FeatureRange
from headwater.client.network.cluster_metadata import BrokerNode
from headwater.console.views.charts import Charts
from headwater.console.views.cluster_view import ClusterView, is_offline, is_under_replicated
from headwater.console.views.configs import ConfigRow

TROUBLES_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    """A log directory. Disk sizes are None if the broker does not report them."""

    path: str
    log_bytes: int
    partitions: int
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker, its leaders, replicas and log size."""

    id: int
    address: str
    rack: str | None
    is_controller: bool
    leaders: int
    replicas: int
    log_bytes: int | None
    """None if unknown; `complaint` has the error."""
    complaint: str | None
    is_missing: bool = False
    """Holds replicas, but is not part of the cluster now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A partition that is offline or under-replicated."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_offline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRow:
    """A feature: supported versions and finalized version (0: disabled)."""

    name: str
    finalized: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The overview page; `troubles` has at most a hundred partitions."""

    cluster_id: str
    controller: int | None
    bootstrap: str
    console_version: str
    brokers: tuple[BrokerRow, ...]
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    log_bytes: int
    troubles: tuple[Trouble, ...]
    features: tuple[FeatureRow, ...]
    charts: Charts
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerList:
    """All brokers, the missing ones too, and charts that compare them."""

    brokers: tuple[BrokerRow, ...]
    charts: Charts


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDetail:
    """One broker with its log directories, and its configs or loggers."""

    broker: BrokerRow
    disks: tuple[DiskRow, ...]
    configs: tuple[ConfigRow, ...]
    charts: Charts


def overview(
    cluster: ClusterView,
    features: dict[str, FeatureRange],
    *,
    bootstrap: str,
    version: str,
    charts: Charts,
    is_read_only: bool,
) -> Overview:
    partitions = [
        (name, each) for name, topic in cluster.topics.items() for each in topic.partitions
    ]
    troubles = [
        Trouble(
            topic=name,
            partition=each.partition,
            leader=None if is_offline(each) else each.leader_id,
            replicas=each.replicas,
            isr=each.isr,
            is_offline=is_offline(each),
        )
        for name, each in partitions
        if is_offline(each) or is_under_replicated(each)
    ]
    offline = sum(each.is_offline for each in troubles)
    controller = cluster.description.controller_id
    return Overview(
        cluster_id=cluster.description.cluster_id,
        controller=controller if controller >= 0 else None,
        bootstrap=bootstrap,
        console_version=version,
        brokers=broker_rows(cluster),
        topics=len(cluster.topics),
        partitions=len(partitions),
        offline=offline,
        under_replicated=len(troubles) - offline,
        log_bytes=sum(cluster.sizes().values()),
        troubles=tuple(
            sorted(troubles, key=lambda each: (not each.is_offline, each.topic, each.partition))
        )[:TROUBLES_MAX],
        features=tuple(
            FeatureRow(
                name=name,
                finalized=found.finalized,
                min_version=found.min_version,
                max_version=found.max_version,
            )
            for name, found in sorted(features.items())
        ),
        charts=charts,
        is_read_only=is_read_only,
    )


def broker_rows(cluster: ClusterView) -> tuple[BrokerRow, ...]:
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            leaders[partition.leader_id] = leaders.get(partition.leader_id, 0) + 1
            for node_id in partition.replicas:
                replicas[node_id] = replicas.get(node_id, 0) + 1

    def row(node: BrokerNode) -> BrokerRow:
        disks = disk_rows(cluster, node.node_id)
        is_known = node.node_id in cluster.log_dirs
        return BrokerRow(
            id=node.node_id,
            address=str(node.address),
            rack=node.rack,
            is_controller=node.node_id == cluster.description.controller_id,
            leaders=leaders.get(node.node_id, 0),
            replicas=replicas.get(node.node_id, 0),
            log_bytes=sum(each.log_bytes for each in disks) if is_known else None,
            complaint=cluster.log_dir_errors.get(node.node_id),
        )

    present = {each.node_id for each in cluster.description.brokers}
    missing = [
        BrokerRow(
            id=node_id,
            address="-",
            rack=None,
            is_controller=False,
            leaders=0,
            replicas=replicas[node_id],
            log_bytes=None,
            complaint="The broker is not running.",
            is_missing=True,
        )
        for node_id in replicas
        if node_id not in present
    ]
    rows = [*map(row, cluster.description.brokers), *missing]
    return tuple(sorted(rows, key=lambda each: each.id))


def disk_rows(cluster: ClusterView, node_id: int) -> tuple[DiskRow, ...]:
    return tuple(
        DiskRow(
            path=each.path,
            log_bytes=sum(replica.size_bytes for replica in each.replicas.values()),
            partitions=len(each.replicas),
            total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
            usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
        )
        for each in cluster.log_dirs.get(node_id, [])
    )
