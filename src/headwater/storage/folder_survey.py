"""What lies in log directories, told without opening a log.

For a directory that comes from elsewhere: a Kafka broker's, or one whose cluster facts are lost.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from headwater.model.failures import CorruptFile
from headwater.model.ids import NO_EPOCH, TopicId, TopicPartition
from headwater.storage import leader_epochs, partition_metadata
from headwater.storage.disk import Disk
from headwater.storage.partition_folders import METADATA_TOPIC, FolderKind, parse_folder_name


class FoundPartition(NamedTuple):
    """A partition's folder: whose it says it is, and the newest leader epoch it knows."""

    name: TopicPartition
    topic_id: TopicId | None
    leader_epoch: int


def survey(disk: Disk, directories: Sequence[PurePath]) -> list[FoundPartition]:
    """Every live partition folder, in the order of topics and numbers."""
    found = []
    for directory in directories:
        for name in disk.names(directory):
            folder = parse_folder_name(name)
            if (
                folder is not None
                and folder.kind is FolderKind.LIVE
                and folder.partition.topic != METADATA_TOPIC
            ):
                found.append(_look(disk, directory / name, folder.partition))
    return sorted(found)


def _look(disk: Disk, folder: PurePath, name: TopicPartition) -> FoundPartition:
    """Small files that cannot be read are as good as none: loading the log judges them."""
    try:
        topic_id = partition_metadata.load(disk, folder)
    except CorruptFile:
        topic_id = None
    try:
        epoch = leader_epochs.load(disk, folder).latest
    except CorruptFile:
        epoch = NO_EPOCH
    return FoundPartition(name, topic_id, epoch)
