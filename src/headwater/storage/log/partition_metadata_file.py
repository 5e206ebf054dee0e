"""`partition.metadata`: the id of the topic that a partition folder belongs to.

    version: 0
    topic_id: AAAAAAAAAAAAAAAAAAAAAQ

It is written before the first record, so that a folder left from a deleted topic is not taken for
a new topic of the same name. A power cut before the log's first flush may take it, or leave a torn
one: whoever knows the topic's id then writes it again.
"""

import re
from pathlib import PurePath

from headwater.common.exceptions import CorruptFile, ProtocolError
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.storage.io.disk import Disk, File, read_whole

FILE_NAME = "partition.metadata"

# A higher version is read as far as we know it, as Kafka does, so that a downgrade works.
_CONTENT = re.compile(
    rb"version:\s+[0-9]{1,9}\r?\ntopic_id:\s+([A-Za-z0-9_-]{22})(?:\r?\n.*)?", re.DOTALL
)


def encode(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}\n".encode("ascii")


def decode(content: bytes) -> TopicId:
    """The topic's id, or `CorruptFile`."""
    match = _CONTENT.fullmatch(content)
    if match is None:
        raise CorruptFile(f"{FILE_NAME} cannot be read: {content[:80]!r}")
    try:
        topic_id = TopicId.parse(match[1].decode("ascii"))
    except ProtocolError as error:
        raise CorruptFile(f"{FILE_NAME} has no topic id: {content[:80]!r}") from error
    if topic_id == NO_TOPIC_ID:
        raise CorruptFile(f"{FILE_NAME} has the topic id that stands for none")
    return topic_id


def load(disk: Disk, folder: PurePath) -> TopicId | None:
    """The id in a partition folder, None where there is no file. May raise `CorruptFile`."""
    content = read_whole(disk, folder / FILE_NAME)
    return None if content is None else decode(content)


def open_for_sync(disk: Disk, folder: PurePath) -> File | None:
    """The file, for a job that makes it durable; the caller closes it. None where it is gone."""
    path = folder / FILE_NAME
    return disk.open(path) if disk.status(path) is not None else None


def write(disk: Disk, folder: PurePath, topic_id: TopicId) -> None:
    """Replace the file. Not durable by itself: the log's first flush sees to that."""
    file = disk.open(folder / FILE_NAME, create=True)
    try:
        file.truncate(0)
        file.write([encode(topic_id)], 0)
    finally:
        file.close()
