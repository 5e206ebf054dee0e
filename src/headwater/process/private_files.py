"""Directories and files that only their owner can read.

ZooKeeper stores SCRAM credentials and broker settings in plain form, so its snapshots and
transaction logs are as secret as a password file.
"""

import os
import stat
from pathlib import Path
from typing import IO, Final

from headwater.common.exceptions import StorageError

UMASK: Final = 0o077
"""umask of child processes that write such files."""
_FOLDER: Final = 0o700
_FILE: Final = 0o600


def make_private(folder: Path, *, names: tuple[str, ...] = ()) -> None:
    """Create or restrict a directory and named entries for their owner only.

    Only the named entries are changed, because the user may have chosen a directory with other
    files. A directory shared by all users, such as /tmp, stays as it is. Raises `StorageError`.
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
    """Open a file for writing, readable by its owner only, even if it existed before."""
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
