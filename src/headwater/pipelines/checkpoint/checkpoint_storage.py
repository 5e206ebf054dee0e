"""Read and change files of a checkpoint, locally or through Hadoop.

    orders/_pipeline.json       the pipeline that the checkpoint belongs to
    orders/SINK/metadata        Spark's: the id of the query
    orders/SINK/offsets/7       Spark's: what batch 7 reads up to, written before it starts
    orders/SINK/commits/7       Spark's: written when batch 7 is done
    orders/SINK/state/          Spark's, if the query has state

Note: Hadoop's local file system keeps a checksum of each file beside it. A file that is replaced
without it would be treated as corrupt.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from headwater.pipelines.check.sql_grammar import start_jvm
from headwater.pipelines.run.spark_errors import in_one_line
from headwater.spark.locations import has_scheme

_HADOOP_CONF: Final = "spark.hadoop."


class CheckpointStorage(Protocol):
    """Files below a location, by their paths relative to it."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""

    def read(self, path: str) -> str | None:
        """Return the content of a file; None if it does not exist."""

    def write(self, path: str, text: str) -> None:
        """Create or replace a file atomically; create its parent folders."""

    def rename(self, path: str, target: str) -> None: ...


class LocalStorage:
    """Storage in a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> list[str]:
        folder = self._root / path
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []

    def read(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, path: str, text: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        with draft.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        draft.replace(file)

    def rename(self, path: str, target: str) -> None:
        (self._root / path).rename(self._root / target)


class HadoopStorage:
    """Storage in a location with a scheme, through Hadoop's classes in a JVM."""

    def __init__(self, jvm: Any, conf: Any, root: str) -> None:
        """`conf` is Hadoop's `Configuration`."""
        self._jvm = jvm
        self._root = root.rstrip("/")
        self._files = self._path("").getFileSystem(conf)

    def names(self, path: str) -> list[str]:
        folder = self._path(path)
        if not self._files.exists(folder):
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(folder))

    def read(self, path: str) -> str | None:
        file = self._path(path)
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            # py4j converts a Java byte array to bytes.
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        file = self._path(path)
        draft = self._path(f"{path}.draft")
        stream = self._files.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(file, False)
        self._files.rename(draft, file)

    def rename(self, path: str, target: str) -> None:
        self._files.rename(self._path(path), self._path(target))

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{path}".rstrip("/"))


def local_folder(location: str) -> Path | None:
    """Return the local folder of a location; None if it is Hadoop's."""
    if not has_scheme(location):
        return Path(location)
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


@contextmanager
def opened_storage(location: str, conf: Mapping[str, str]) -> Iterator[CheckpointStorage]:
    """Open storage without a Spark session; Hadoop needs a small JVM.

    `conf` has Spark's settings, of which those for Hadoop are used.
    """
    folder = local_folder(location)
    if folder is not None:
        yield LocalStorage(folder)
        return
    gateway, process = start_jvm()
    try:
        settings = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in conf.items():
            if name.startswith(_HADOOP_CONF):
                settings.set(name.removeprefix(_HADOOP_CONF), value)
        with in_one_line():
            yield HadoopStorage(gateway.jvm, settings, location)
    finally:
        gateway.shutdown()
        with process:
            process.kill()


def session_storage(location: str, spark: Any) -> CheckpointStorage:
    """Open storage with the JVM and settings of a session."""
    folder = local_folder(location)
    if folder is not None:
        return LocalStorage(folder)
    context = spark.sparkContext
    return HadoopStorage(context._jvm, context._jsc.hadoopConfiguration(), location)
