"""Producer snapshot: one `.snapshot` file per segment, named after its offset.

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

A file holds the state after all records below the offset in its name, which is exclusive. Files are
written under their final name, so a crash may leave an incomplete one: the CRC reveals it, and an
older snapshot with more of the log replayed gives the same state (RC-4).
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
    """Content of a snapshot file: the state before an offset."""

    offset: int
    entries: list[ProducerEntry]


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Encode a snapshot file."""
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
    """Decode the producers of a snapshot file, or raise `CorruptFile`."""
    if len(content) < _ENTRIES_POSITION:
        raise CorruptFile(f"{len(content)} bytes are too few for a producer snapshot")
    version, crc = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptFile(f"producer snapshot version {version} instead of {VERSION}")
    computed = crc32c(content[_HEADER.size :])
    if crc != computed:
        raise CorruptFile(f"producer snapshot has CRC {computed:08x}, expected {crc:08x}")
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
    """Return the offsets of all snapshots of a partition, ascending."""
    return sorted(
        int(match[1]) for match in map(_NAME.fullmatch, disk.names(folder)) if match is not None
    )


def write(disk: Disk, folder: PurePath, offset: int, entries: Iterable[ProducerEntry]) -> File:
    """Write a snapshot; the caller syncs and closes the file.

    Until it is synced, a power cut may leave an incomplete one, which only costs a longer replay.
    The sync may run off the event loop: a truncation that removes the file meanwhile does no harm.
    """
    content = encode(entries)
    file = disk.open(folder / file_name(offset), create=True)
    # Truncated first, so that no tail of an older, longer snapshot remains.
    file.truncate(0)
    file.write([content], 0)
    return file


def remove_all(disk: Disk, folder: PurePath) -> None:
    for offset in list_offsets(disk, folder):
        disk.remove(folder / file_name(offset))


def load_newest(
    disk: Disk, folder: PurePath, *, log_start_offset: int, log_end_offset: int
) -> Snapshot | None:
    """Return the newest valid snapshot within the log; delete unusable ones (RC-4).

    Used at start-up and for truncation: the log is replayed from the snapshot's offset, or from its
    start if there is none. A snapshot below the log start is useless, because the records in
    between are deleted and sequences would seem to jump. One exactly at the log start is kept,
    while Kafka deletes it: it still recognises retries of producers whose records retention has
    deleted.
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


def remove_stray_snapshots(
    disk: Disk, folder: PurePath, segment_base_offsets: Collection[int]
) -> None:
    """Delete snapshots of no segment, except the newest if after all of them.

    That one may be at the log end, where a clean shutdown wrote it and no segment starts.
    """
    last_base_offset = max(segment_base_offsets, default=-1)
    offsets = list_offsets(disk, folder)
    for offset in offsets:
        is_at_log_end = offset == offsets[-1] and offset > last_base_offset
        if offset not in segment_base_offsets and not is_at_log_end:
            disk.remove(folder / file_name(offset))
