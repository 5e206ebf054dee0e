"""`move-count`: how often a partition's log has moved between log directories.

    version: 0
    moves: 3

Two directories are two disks, and no rename spans both. So for a moment two directories have the
partition's name, and a crash, or a disk that is offline for a while, may leave both. The one with
the higher count is the log; the other one is obsolete.

Note: the count of a `-future` directory means nothing. Kafka does not know this file and ignores
it.
"""

import re
from pathlib import PurePath

from headwater.storage.io.disk import Disk, read_whole, write_atomically

FILE_NAME = "move-count"
NEVER_MOVED = 0

_CONTENT = re.compile(rb"version: 0\nmoves: ([0-9]{1,18})\n")


def load(disk: Disk, folder: PurePath) -> int:
    """Return the count of a directory; 0 if the file is missing or unreadable."""
    match = _CONTENT.fullmatch(read_whole(disk, folder / FILE_NAME) or b"")
    return NEVER_MOVED if match is None else int(match[1])


def save(disk: Disk, folder: PurePath, count: int) -> None:
    """Write the count; durable on return."""
    write_atomically(disk, folder / FILE_NAME, f"version: 0\nmoves: {count}\n".encode("ascii"))
