"""List the partitions in log directories without opening their logs.

For directories that come from elsewhere: from a Kafka broker, or from a cluster whose metadata is
lost.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import NO_EPOCH, TopicId, TopicPartition
from headwater.storage.io.disk import Disk
from headwater.storage.log import leader_epoch_checkpoint, partition_metadata_file
from headwater.storage.log_manager.partition_directory_names import (
    METADATA_TOPIC,
    DirectoryKind,
    parse_directory_name,
)


class FoundPartition(NamedTuple):
    """Partition directory with its topic id and newest leader epoch."""

    name: TopicPartition
    topic_id: TopicId | None
    leader_epoch: int


def scan_log_directories(disk: Disk, directories: Sequence[PurePath]) -> list[FoundPartition]:
    """Return every live partition directory, sorted by topic and partition."""
    found = []
    for directory in directories:
        for name in disk.names(directory):
            folder = parse_directory_name(name)
            if (
                folder is not None
                and folder.kind is DirectoryKind.LIVE
                and folder.partition.topic != METADATA_TOPIC
            ):
                found.append(_look(disk, directory / name, folder.partition))
    return sorted(found)


def _look(disk: Disk, folder: PurePath, name: TopicPartition) -> FoundPartition:
    """Read the small files; an unreadable one counts as missing."""
    try:
        topic_id = partition_metadata_file.load(disk, folder)
    except CorruptFile:
        topic_id = None
    try:
        epoch = leader_epoch_checkpoint.load(disk, folder).latest
    except CorruptFile:
        epoch = NO_EPOCH
    return FoundPartition(name, topic_id, epoch)
