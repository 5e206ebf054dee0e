"""Format of the metadata file (`cluster.facts`), without I/O.

    +------------+------------+------------+---------------------------+
    | F5 'H' 'W' | length     | CRC-32C    | JSON, ASCII, `length`     |
    |  'F'       | 4 bytes    | 4 bytes    | bytes                     |
    +------------+------------+------------+---------------------------+

A file is a sequence of frames. The first is a snapshot: the cluster id, a version, and the changes
that lead to it. It is written with the file, which is replaced as a whole, so it can never be torn.
Each later frame contains one or more changes and was written and synced at once. So after a power
cut at most the last frame is torn, and a valid frame behind a broken one means damage. The marker's
first byte is not ASCII, so a search finds the next frame.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import crc32c

from headwater.common.exceptions import CorruptFile
from headwater.metadata.changes import MetadataChange, apply, changes_of
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata_store.standalone.metadata_change_json import (
    change_from_json,
    change_to_json,
)

FORMAT: Final = 1
MARKER: Final = b"\xf5HWF"
_HEADER: Final = struct.Struct(">4sII")


@dataclass(frozen=True, slots=True)
class StoredChange:
    """Changes that were decided together, and the version after them."""

    changes: Sequence[MetadataChange]
    version: Version


@dataclass(slots=True)
class StandaloneMetadataFile:
    """Content of a file: snapshot, changes after it, and where its valid part ends."""

    snapshot: ClusterImage
    stored_changes: list[StoredChange] = field(default_factory=list)
    snapshot_bytes: int = 0
    end: int = 0

    def image(self) -> ClusterImage:
        """The snapshot with all changes, applied together, which is much cheaper."""
        if not self.stored_changes:
            return self.snapshot
        changes = (
            change for stored_change in self.stored_changes for change in stored_change.changes
        )
        return apply(self.snapshot, changes, self.stored_changes[-1].version)


def encode_snapshot(image: ClusterImage) -> bytes:
    """Return the first frame of a file, without brokers and controller."""
    return _frame(
        {
            "format": FORMAT,
            "cluster_id": image.cluster_id,
            "version": image.version,
            "facts": [change_to_json(change) for change in changes_of(image)],
        }
    )


def encode_changes(stored_changes: Iterable[StoredChange]) -> bytes:
    """Return one frame, to be written and synced at once."""
    return _frame(
        [
            [stored_change.version, [change_to_json(change) for change in stored_change.changes]]
            for stored_change in stored_changes
        ]
    )


def decode(content: bytes, *, is_standalone: bool) -> StandaloneMetadataFile:
    """Read a file. A torn end is dropped; other damage raises `CorruptFile`."""
    payload, position = _frame_at(content, 0)
    if payload is None:
        raise CorruptFile("the snapshot at the start of the file is damaged")
    snapshot = _snapshot(payload, is_standalone=is_standalone)
    file = StandaloneMetadataFile(snapshot, snapshot_bytes=position, end=position)
    version = snapshot.version
    while position < len(content):
        payload, after = _frame_at(content, position)
        if payload is None:
            _check_tail(content, position)
            break
        for stored_change in _changes(payload):
            if (
                stored_change.version.sequence != version.sequence + 1
                or stored_change.version < version
            ):
                raise CorruptFile(f"change {stored_change.version} cannot follow {version}")
            version = stored_change.version
            file.stored_changes.append(stored_change)
        file.end = position = after
    return file


def _frame(payload: object) -> bytes:
    body = json.dumps(payload, separators=(",", ":"), check_circular=False).encode("ascii")
    return _HEADER.pack(MARKER, len(body), crc32c.crc32c(body)) + body


def _frame_at(content: bytes, position: int) -> tuple[Any, int]:
    """Return the payload of a valid frame and its end, or None and the same position."""
    start = position + _HEADER.size
    if start > len(content):
        return None, position
    marker, length, crc = _HEADER.unpack_from(content, position)
    body = content[start : start + length]
    # A header torn behind its marker has length 0, and the checksum of nothing is 0.
    if marker != MARKER or not body or len(body) < length or crc32c.crc32c(body) != crc:
        return None, position
    try:
        return json.loads(body), start + length
    except ValueError as error:
        raise CorruptFile(f"invalid JSON in the frame at {position}: {error}") from error


def _check_tail(content: bytes, position: int) -> None:
    candidate = content.find(MARKER, position + 1)
    while candidate >= 0:
        if _frame_at(content, candidate)[0] is not None:
            raise CorruptFile(f"damaged at {position}, but a valid frame follows at {candidate}")
        candidate = content.find(MARKER, candidate + 1)


def _snapshot(payload: object, *, is_standalone: bool) -> ClusterImage:
    match payload:
        case {
            "format": int(found),
            "cluster_id": str(cluster_id),
            "version": [int(epoch), int(sequence)],
            "facts": list(changes),
        }:
            if found != FORMAT:
                raise CorruptFile(f"unknown format {found}, expected {FORMAT}")
            empty = ClusterImage(cluster_id=cluster_id, is_standalone=is_standalone)
            return apply(empty, map(change_from_json, changes), Version(epoch, sequence))
    raise CorruptFile("the first frame is not a snapshot")


def _changes(payload: object) -> list[StoredChange]:
    stored_changes = []
    for written in payload if isinstance(payload, list) else [payload]:
        match written:
            case [[int(epoch), int(sequence)], list(changes)]:
                stored_changes.append(
                    StoredChange(list(map(change_from_json, changes)), Version(epoch, sequence))
                )
            case _:
                raise CorruptFile("a frame must be a list of changes")
    return stored_changes
