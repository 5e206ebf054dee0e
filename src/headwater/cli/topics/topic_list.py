"""Rows of `headwater topics list`: size, records and state of each topic.

The cost is bounded: one Metadata request for all topics, one DescribeLogDirs request per broker,
and two ListOffsets requests per leader for at most `COUNTED_MAX` partitions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.units import ByteCount

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.admin.descriptions import TopicDescription
    from headwater.client.network.cluster_metadata import PartitionView

COUNTED_MAX: Final = 5_000
"""Partitions whose offsets are requested without --records."""

OK: Final = "ok"
UNDER_REPLICATED: Final = "under-replicated"
OFFLINE: Final = "offline"
STATES: Final = (OFFLINE, UNDER_REPLICATED, OK)

_ONE_BROKER_S: Final = 5.0
_OFFSETS_S: Final = 30.0
_LATEST: Final = -1
_EARLIEST: Final = -2

SORTS: Final[Mapping[str, "Callable[[Mapping[str, object]], Any]"]] = {
    "name": lambda row: row["topic"],
    "partitions": lambda row: -_number(row["partitions"]),
    "size": lambda row: -_number(row["size"]),
    "records": lambda row: -_number(row["records"]),
    "state": lambda row: STATES.index(str(row["state"])),
}


def topic_rows(
    topics: "Iterable[TopicDescription]",
    *,
    sizes: "Mapping[TopicPartition, int] | None",
    counts: Mapping[str, int],
) -> list[dict[str, object]]:
    """Return a row per topic; size and records are None if they are unknown."""
    from headwater.client import TopicPartition

    rows: list[dict[str, object]] = []
    for topic in topics:
        offline = sum(each.leader_id < 0 for each in topic.partitions)
        behind = sum(_is_behind(each) for each in topic.partitions)
        size = (
            None
            if sizes is None
            else sum(
                sizes.get(TopicPartition(topic.name, each.partition), 0)
                for each in topic.partitions
            )
        )
        rows.append(
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replicas": max((len(each.replicas) for each in topic.partitions), default=0),
                "size": None if size is None else ByteCount(size),
                "records": counts.get(topic.name),
                "state": OFFLINE if offline else UNDER_REPLICATED if behind else OK,
                "offline_partitions": offline,
                "under_replicated_partitions": behind,
                "internal": topic.is_internal,
            }
        )
    return rows


def _is_behind(partition: "PartitionView") -> bool:
    return partition.leader_id >= 0 and len(partition.isr) < len(partition.replicas)


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Names that contain one of the texts, or match it if it has * or ?."""
    if not patterns:
        return list(names)
    globs = [each if {"*", "?"} & set(each) else f"*{each}*" for each in patterns]
    return [name for name in names if any(fnmatchcase(name, glob) for glob in globs)]


def replica_sizes(admin: "Admin") -> "dict[TopicPartition, int] | None":
    """Bytes of each partition, summed over its replicas; None without authorization."""
    from headwater.client.errors import (
        BrokerNotAvailable,
        ClusterAuthorizationFailed,
        KafkaTimeout,
        NetworkException,
    )

    sizes: dict[TopicPartition, int] = {}
    for node in admin.describe_cluster().brokers:
        try:
            found = admin.describe_log_dirs([node.node_id], timeout=_ONE_BROKER_S)
        except ClusterAuthorizationFailed:
            return None
        except (BrokerNotAvailable, KafkaTimeout, NetworkException):
            # The broker has just died; its replicas are not counted.
            continue
        for directories in found.values():
            for directory in directories:
                for place, replica in directory.replicas.items():
                    sizes[place] = sizes.get(place, 0) + replica.size_bytes
    return sizes


def record_counts(
    admin: "Admin", topics: "Iterable[TopicDescription]", *, limit: int | None
) -> dict[str, int]:
    """Offsets between start and end of each topic, for whole topics within the limit.

    A topic with a partition that has no leader is left out: its count is unknown.
    """
    from headwater.client import TopicPartition

    places: list[TopicPartition] = []
    for topic in topics:
        found = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        is_led = all(each.leader_id >= 0 for each in topic.partitions)
        if is_led and (limit is None or len(places) + len(found) <= limit):
            places += found
    starts, ends = _offsets(admin, places, _EARLIEST), _offsets(admin, places, _LATEST)
    counts: dict[str, int] = {}
    unknown: set[str] = set()
    for place in places:
        if place in starts and place in ends:
            counts[place.topic] = counts.get(place.topic, 0) + ends[place] - starts[place]
        else:
            unknown.add(place.topic)
    return {topic: count for topic, count in counts.items() if topic not in unknown}


def _offsets(
    admin: "Admin", places: "Sequence[TopicPartition]", which: int
) -> "dict[TopicPartition, int]":
    from headwater.client.errors import KafkaError, SomeFailed

    if not places:
        return {}
    try:
        found = admin.list_offsets(dict.fromkeys(places, which), timeout=_OFFSETS_S)
    except SomeFailed as error:
        # Some lost their leaders or were deleted meanwhile.
        found = dict(error.results)
    except KafkaError:
        return {}
    return {place: at.offset for place, at in found.items()}


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1
