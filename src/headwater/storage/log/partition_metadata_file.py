"""PartitionMetadataFile: `partition.metadata`, a partition's topic id.

    version: 0
    topic_id: AAAAAAAAAAAAAAAAAAAAAQ

It is written before the first record, so that the directory of a deleted topic is not mistaken for
a new topic of the same name. A power cut before the log's first flush may lose or tear it; it is
then written again once the topic id is known.
"""

import re
from pathlib import PurePath

from headwater.common.exceptions import CorruptFile, ProtocolError
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.storage.io.disk import Disk, File, read_whole

FILE_NAME = "partition.metadata"

# Fields of a higher version are ignored, as in Kafka, so that a downgrade works.
_CONTENT = re.compile(
    rb"version:\s+[0-9]{1,9}\r?\ntopic_id:\s+([A-Za-z0-9_-]{22})(?:\r?\n.*)?", re.DOTALL
)


def encode(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}\n".encode("ascii")


def decode(content: bytes) -> TopicId:
    """Parse the topic id, or raise `CorruptFile`."""
    match = _CONTENT.fullmatch(content)
    if match is None:
        raise CorruptFile(f"{FILE_NAME} cannot be read: {content[:80]!r}")
    try:
        topic_id = TopicId.parse(match[1].decode("ascii"))
    except ProtocolError as error:
        raise CorruptFile(f"{FILE_NAME} has no topic id: {content[:80]!r}") from error
    if topic_id == NO_TOPIC_ID:
        raise CorruptFile(f"{FILE_NAME} has the reserved all-zero topic id")
    return topic_id


def load(disk: Disk, folder: PurePath) -> TopicId | None:
    """Read a partition's topic id; None without a file. May raise `CorruptFile`."""
    content = read_whole(disk, folder / FILE_NAME)
    return None if content is None else decode(content)


def open_for_sync(disk: Disk, folder: PurePath) -> File | None:
    """Open the file for a sync job, which closes it. None if it does not exist."""
    path = folder / FILE_NAME
    return disk.open(path) if disk.status(path) is not None else None


def write(disk: Disk, folder: PurePath, topic_id: TopicId) -> None:
    """Replace the file. Durable after the log's first flush."""
    file = disk.open(folder / FILE_NAME, create=True)
    try:
        file.truncate(0)
        file.write([encode(topic_id)], 0)
    finally:
        file.close()
