"""Format of Kafka's checkpoint files.

    0                 version
    2                 number of entries
    orders 0 1041     topic, partition, offset
    orders 1 998

An empty file is a checkpoint without entries, because Kafka creates the file before it has anything
to write. Otherwise the file must be complete to the last newline: these files are replaced
atomically, so a short one is corrupt.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import TopicPartition
from headwater.storage.io.disk import Disk, read_whole, write_atomically

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

VERSION = 0

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# `int` would also accept signs, underscores, blanks and the digits of other scripts.
_NUMBER = re.compile(r"[0-9]{1,19}")


def encode_lines(lines: Iterable[str]) -> bytes:
    """Encode entries as a version 0 checkpoint."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries)).encode("utf-8")


def decode_lines(content: bytes) -> list[str]:
    """Decode the entries of a version 0 checkpoint, or raise `CorruptFile`."""
    if not content:
        return []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile("the checkpoint is not text") from error
    if not text.endswith("\n"):
        raise CorruptFile("the checkpoint ends inside a line")
    version, *rest = text[:-1].split("\n")
    if version != str(VERSION):
        raise CorruptFile(f"checkpoint version {version[:20]!r} instead of {VERSION}")
    if not rest:
        raise CorruptFile("the checkpoint has no entry count")
    count, *entries = rest
    if parse_number(count, INT32_MAX) != len(entries):
        raise CorruptFile(f"the checkpoint declares {count} entries but has {len(entries)}")
    return entries


def parse_number(text: str, limit: int) -> int:
    """Parse a plain decimal number from 0 to the limit, or raise `CorruptFile`."""
    if not _NUMBER.fullmatch(text) or int(text) > limit:
        raise CorruptFile(f"{text[:40]!r} is not a number from 0 to {limit}")
    return int(text)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    return dict(map(_parse_offset_line, decode_lines(content)))


def load_offsets(disk: Disk, path: PurePath) -> dict[TopicPartition, int]:
    """Read one offset per partition; empty without a file. May raise `CorruptFile`."""
    return decode_offsets(read_whole(disk, path) or b"")


def save_offsets(disk: Disk, path: PurePath, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file; durable on return."""
    write_atomically(disk, path, encode_offsets(offsets))


def _parse_offset_line(line: str) -> tuple[TopicPartition, int]:
    fields = line.split(" ")
    if len(fields) != 3 or not fields[0]:
        raise CorruptFile(f"not a checkpoint entry: {line[:300]!r}")
    topic, partition, offset = fields
    return (
        TopicPartition(topic, parse_number(partition, INT32_MAX)),
        parse_number(offset, INT64_MAX),
    )
