"""How often a partition's log has moved from one log directory to another: `move-count`.

    version: 0
    moves: 3

Two directories are two disks, and no rename spans both. So for a moment two folders bear the
partition's name, and a crash, or a disk that is away for a while, may leave both. The one that was
moved to has the higher count, and is the log; the other one is what it has left behind.

What a reader would get wrong: the count of a folder that is still a `-future` says nothing. Kafka
does not know this file, and leaves it alone.
"""

import re
from pathlib import PurePath

from headwater.storage.io.disk import Disk, read_whole, write_atomically

FILE_NAME = "move-count"
NEVER_MOVED = 0

_CONTENT = re.compile(rb"version: 0\nmoves: ([0-9]{1,18})\n")


def load(disk: Disk, folder: PurePath) -> int:
    """The count of a folder. It is written as a whole, so one that cannot be read is nobody's."""
    match = _CONTENT.fullmatch(read_whole(disk, folder / FILE_NAME) or b"")
    return NEVER_MOVED if match is None else int(match[1])


def save(disk: Disk, folder: PurePath, count: int) -> None:
    """Durable on return."""
    write_atomically(disk, folder / FILE_NAME, f"version: 0\nmoves: {count}\n".encode("ascii"))
