"""Folders and files that only their owner can read.

ZooKeeper stores SCRAM keys and settings of brokers as they are, so its snapshots and transaction
logs are as secret as a file of passwords.
"""

import os
import stat
from pathlib import Path
from typing import IO, Final

from headwater.common.exceptions import StorageError

UMASK: Final = 0o077
"""For child processes that write such files."""
_FOLDER: Final = 0o700
_FILE: Final = 0o600


def make_private(folder: Path, *, names: tuple[str, ...] = ()) -> None:
    """Make a folder for its owner alone, or tighten one that exists, with the named entries in it.

    Only what is named is touched: a user may have pointed to a folder that holds other things. A
    folder that all users share, such as /tmp, stays as it is. Raises `StorageError`.
    """
    try:
        folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
        found = folder.stat()
        if not found.st_mode & stat.S_ISVTX and found.st_uid == os.geteuid():
            folder.chmod(_FOLDER)
        for name in names:
            _tighten(folder / name)
    except OSError as error:
        raise StorageError(
            f"cannot make {folder} readable for its owner only: {error.strerror}"
        ) from error


def open_private(path: Path, *, append: bool = False) -> IO[bytes]:
    """Open a file for writing, readable for its owner only, also if it existed before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    descriptor = os.open(path, flags, _FILE)
    os.fchmod(descriptor, _FILE)
    return os.fdopen(descriptor, "ab" if append else "wb")


def write_private(path: Path, text: str) -> None:
    with open_private(path) as file:
        file.write(text.encode())


def _tighten(path: Path) -> None:
    if path.is_symlink() or not path.exists():
        return
    if not path.is_dir():
        path.chmod(_FILE)
        return
    path.chmod(_FOLDER)
    for each in path.iterdir():
        _tighten(each)
