"""Paths and URLs of checkpoints and files, as Spark and Hadoop read them.

A location with a scheme (`s3a://`, `hdfs://`, `file:///`) is Hadoop's and stays as it is. One
without a scheme is a path of this machine.
"""

import re
from pathlib import Path
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LONGEST_PATH: Final = 4096
# File systems that are not in PySpark's jars, and the version that fits its Hadoop.
_FILE_SYSTEMS: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws:3.5.0",
    "abfs": "org.apache.hadoop:hadoop-azure:3.5.0",
    "abfss": "org.apache.hadoop:hadoop-azure:3.5.0",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


def has_scheme(location: str) -> bool:
    return _SCHEME.match(location) is not None


def resolved(location: str, folder: Path) -> str:
    """Make a path absolute, relative to `folder`; keep locations with a scheme."""
    if has_scheme(location):
        return location
    return str((folder / Path(location[:_LONGEST_PATH]).expanduser()).resolve())


def below(location: str, *names: str) -> str:
    """A location inside another one."""
    return "/".join([location.rstrip("/"), *names])


def why_no_file_system(location: str, brings_jars: bool) -> str | None:
    """The reason in one line if Spark has no file system for the scheme of a location.

    PySpark comes with `file` and `hdfs`. Jars that a user brings may have any other.
    """
    scheme = location.partition(":")[0].lower() if has_scheme(location) else "file"
    if scheme in ("s3", "s3n"):
        return f"{location}: Hadoop reads and writes S3 under s3a://..., not {scheme}://..."
    package = _FILE_SYSTEMS.get(scheme)
    if package is None or brings_jars:
        return None
    return (
        f"{location}: Spark has no file system for {scheme}; add {package} to spark.jars.packages "
        "in session.conf"
    )


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
