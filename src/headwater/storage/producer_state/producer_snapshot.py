"""Producer state on disk: one `.snapshot` file per segment, named for the offset it stands at.

    byte 0  version            int16   1
         2  crc                uint32  CRC-32C of everything after it
         6  entry count        int32
        10  entries, 46 bytes each:
            producer id        int64
            epoch              int16
            last sequence      int32   -1 when only markers are known
            last offset        int64   -1 likewise
            offset delta       int32   last offset minus first offset of the last batch
            timestamp          int64
            coordinator epoch  int32   -1 before the first marker
            transaction start  int64   -1 when no transaction is open

A file holds the state made by all records below the offset in its name; the record at that offset
is not in it. Files are written under their final name, so a crash may leave half of one: the CRC
tells, and an older file with more of the log replayed does as well (RC-4).
"""

import re
import struct
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import NamedTuple

from crc32c import crc32c

from headwater.common.exceptions import CorruptFile
from headwater.storage.io.disk import Disk, File, read_whole
from headwater.storage.producer_state.producer_state_manager import ProducerEntry

VERSION = 1
SUFFIX = ".snapshot"

_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_ENTRIES_POSITION = _HEADER.size + _COUNT.size
assert _ENTRY.size == 46

_NAME = re.compile(r"([0-9]{20})" + re.escape(SUFFIX))


class Snapshot(NamedTuple):
    """What a file said: the state before an offset."""

    offset: int
    entries: list[ProducerEntry]


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(VERSION, crc32c(body)) + body


def decode(content: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot file, or `CorruptFile`."""
    if len(content) < _ENTRIES_POSITION:
        raise CorruptFile(f"{len(content)} bytes are too few for a producer snapshot")
    version, crc = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptFile(f"producer snapshot version {version} instead of {VERSION}")
    computed = crc32c(content[_HEADER.size :])
    if crc != computed:
        raise CorruptFile(f"producer snapshot has CRC {computed:08x} and claims {crc:08x}")
    (count,) = _COUNT.unpack_from(content, _HEADER.size)
    if len(content) != _ENTRIES_POSITION + count * _ENTRY.size:
        raise CorruptFile(f"{len(content)} bytes do not hold {count} producers")
    return [
        ProducerEntry(
            producer_id=producer_id,
            epoch=epoch,
            last_sequence=last_sequence,
            last_offset=last_offset,
            last_offset_delta=last_offset_delta,
            timestamp=timestamp,
            coordinator_epoch=coordinator_epoch,
            transaction_first_offset=transaction_first_offset,
        )
        for (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            last_offset_delta,
            timestamp,
            coordinator_epoch,
            transaction_first_offset,
        ) in _ENTRY.iter_unpack(content[_ENTRIES_POSITION:])
    ]


def file_name(offset: int) -> str:
    return f"{offset:020d}{SUFFIX}"


def list_offsets(disk: Disk, folder: PurePath) -> list[int]:
    """The offsets of all snapshots of a partition, rising."""
    return sorted(
        int(match[1]) for match in map(_NAME.fullmatch, disk.names(folder)) if match is not None
    )


def write(disk: Disk, folder: PurePath, offset: int, entries: Iterable[ProducerEntry]) -> File:
    """Write the snapshot that stands at an offset; the caller syncs and closes the file.

    Until it is synced a power cut may leave half of it, which costs a longer replay and nothing
    else. The sync may run off the loop: a truncation that removes the file meanwhile does no harm.
    """
    content = encode(entries)
    file = disk.open(folder / file_name(offset), create=True)
    # Emptied first, so that no tail of an older and longer snapshot spoils the new one.
    file.truncate(0)
    file.write([content], 0)
    return file


def remove_all(disk: Disk, folder: PurePath) -> None:
    for offset in list_offsets(disk, folder):
        disk.remove(folder / file_name(offset))


def load_newest(
    disk: Disk, folder: PurePath, *, log_start_offset: int, log_end_offset: int
) -> Snapshot | None:
    """The newest good snapshot within the log; bad ones and those outside are removed (RC-4).

    For start-up and truncation alike: the log is replayed from the snapshot's offset, or from its
    start when there is None. A snapshot below the start is useless, since what lies between is
    deleted and its sequences would seem to jump. One right at the start is kept here, while Kafka
    drops it: it still recognises the retries of producers whose records retention took.
    """
    newest: Snapshot | None = None
    for offset in reversed(list_offsets(disk, folder)):
        path = folder / file_name(offset)
        if not log_start_offset <= offset <= log_end_offset:
            disk.remove(path)
        elif newest is None:
            try:
                newest = Snapshot(offset, decode(read_whole(disk, path) or b""))
            except CorruptFile:
                disk.remove(path)
    return newest


def remove_strays(disk: Disk, folder: PurePath, segment_base_offsets: Collection[int]) -> None:
    """Remove snapshots that belong to no segment, save the newest if it lies beyond them all.

    That one may stand at the log end, where a clean stop put it and no segment begins.
    """
    last_base_offset = max(segment_base_offsets, default=-1)
    offsets = list_offsets(disk, folder)
    for offset in offsets:
        is_at_log_end = offset == offsets[-1] and offset > last_base_offset
        if offset not in segment_base_offsets and not is_at_log_end:
            disk.remove(folder / file_name(offset))
