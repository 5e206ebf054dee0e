"""Paths and URLs of checkpoints and files, as Spark and Hadoop read them.

A location with a scheme (`s3a://`, `hdfs://`, `file:///`) is Hadoop's and stays as it is. One
without a scheme is a path of this machine.
"""

import re
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LONGEST_PATH: Final = 4096


def has_scheme(location: str) -> bool:
    return _SCHEME.match(location) is not None


def resolved(location: str, folder: Path) -> str:
    """A path becomes absolute, relative to `folder`; a location with a scheme does not change."""
    if has_scheme(location):
        return location
    return str((folder / Path(location[:_LONGEST_PATH]).expanduser()).resolve())


def below(location: str, *names: str) -> str:
    """A location inside another one."""
    return "/".join([location.rstrip("/"), *names])


def unreachable_reason(location: str, master: str | None) -> str | None:
    """The reason in one line if executors of `master` cannot reach a location.

    A path without a scheme is one of the driver's machine. A folder that is mounted at the same
    path on all machines is written as `file:///...`, which says so.
    """
    if master is None or master.startswith("local") or has_scheme(location):
        return None
    return (
        f"{location} is a folder of this machine, which the executors of {master} do not share: "
        "use hdfs://..., s3a://..., or file:///... for a folder that is mounted on all machines"
    )
