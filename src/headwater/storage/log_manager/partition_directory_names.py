"""Names of partition directories, including deleted, future and stray ones.

    orders-eu-3                          live
    orders-eu-3.<32 hex digits>-delete   waits to be deleted
    orders-eu-3.<32 hex digits>-future   target of a move between directories
    orders-eu-3.<32 hex digits>-stray    no longer assigned to this broker

A topic may contain dashes and dots, and may even end in `-delete`, so names are parsed from their
end. In a `-delete` or `-stray` name the topic is shortened if the name would exceed 255 characters:
do not use the topic of such a directory.
"""

import re
from enum import Enum
from typing import NamedTuple

from headwater.common.ids import TopicPartition
from headwater.storage.log_manager.checkpoints import INT32_MAX

MAX_NAME_CHARACTERS = 255
UNIQUE_BYTES = 16

METADATA_TOPIC = "__cluster_metadata"
"""Log of a Raft quorum, which may share a directory with partitions. It follows other rules, such
as snapshots instead of retention; Kafka skips it here too.
"""


class DirectoryKind(Enum):
    """Kind of a partition directory; the value is the suffix of its name."""

    LIVE = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class PartitionDirectory(NamedTuple):
    """Parsed name of a partition directory."""

    partition: TopicPartition
    kind: DirectoryKind


_PARTITION = re.compile(r"(\S+)-(0|[1-9][0-9]{0,9})")
_SUFFIXED = re.compile(r"(\S+)\.[^\s.]+(-delete|-future|-stray)")


def live_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def deleted_name(partition: TopicPartition, unique: bytes) -> str:
    return _shortened_name(partition, unique, DirectoryKind.DELETED)


def stray_name(partition: TopicPartition, unique: bytes) -> str:
    return _shortened_name(partition, unique, DirectoryKind.STRAY)


def future_name(partition: TopicPartition, unique: bytes) -> str:
    """Not shortened, as it becomes a live name; Kafka cannot move longer topics."""
    return live_name(partition) + _ending(unique, DirectoryKind.FUTURE)


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """Parse a directory name; None if it is not a partition's."""
    suffixed = _SUFFIXED.fullmatch(name)
    if suffixed is not None:
        name, kind = suffixed[1], DirectoryKind(suffixed[2])
    elif name.endswith(("-delete", "-future", "-stray")):
        return None
    else:
        kind = DirectoryKind.LIVE
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) > INT32_MAX:
        return None
    return PartitionDirectory(TopicPartition(match[1], int(match[2])), kind)


def _shortened_name(partition: TopicPartition, unique: bytes, kind: DirectoryKind) -> str:
    ending = f"-{partition.partition}{_ending(unique, kind)}"
    return partition.topic[: MAX_NAME_CHARACTERS - len(ending)] + ending


def _ending(unique: bytes, kind: DirectoryKind) -> str:
    assert len(unique) == UNIQUE_BYTES, f"{len(unique)} random bytes"
    return f".{unique.hex()}{kind.value}"
