"""`meta.properties`: the node and cluster that a log directory belongs to.

Two versions are read. Version 0, from Kafka with ZooKeeper, calls the node `broker.id` and may lack
every field, because those brokers learned their cluster id only after the first start. Version 1
calls it `node.id` and is the version written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from headwater.common.exceptions import CorruptFile, ProtocolError, WrongLogDirectory
from headwater.common.ids import TopicId
from headwater.common.settings.java_properties import format_properties, parse_properties
from headwater.storage.io.disk import Disk, read_whole, write_atomically
from headwater.storage.log_manager.checkpoints import INT32_MAX, parse_number

FILE_NAME = "meta.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Contents of meta.properties; None for fields missing from a version 0 file."""

    node_id: int | None
    cluster_id: str | None
    directory_id: str | None = None

    def check(self, *, node_id: int, cluster_id: str) -> None:
        """Raise `WrongLogDirectory` for a directory of another node or cluster."""
        if self.cluster_id is not None and self.cluster_id != cluster_id:
            raise WrongLogDirectory(
                f"the log directory belongs to cluster {self.cluster_id}, not to {cluster_id}"
            )
        if self.node_id is not None and self.node_id != node_id:
            raise WrongLogDirectory(
                f"the log directory belongs to node {self.node_id}, not to {node_id}"
            )


def encode(meta: MetaProperties) -> bytes:
    """Encode version 1, which requires node and cluster id."""
    assert meta.node_id is not None, "version 1 requires a node id"
    assert meta.cluster_id is not None, "version 1 requires a cluster id"
    values = {"version": "1", "node.id": str(meta.node_id), "cluster.id": meta.cluster_id}
    if meta.directory_id is not None:
        values["directory.id"] = meta.directory_id
    return format_properties(values)


def decode(content: bytes) -> MetaProperties:
    """Decode either version, or raise `CorruptFile`. Unknown keys are ignored."""
    try:
        values = parse_properties(content)
    except ValueError as error:
        raise CorruptFile(f"{FILE_NAME} is not a properties file: {error}") from error
    version = values.get("version", "0")
    if version not in ("0", "1"):
        raise CorruptFile(f"{FILE_NAME} has version {version[:20]!r}, which is neither 0 nor 1")
    node_id = values.get("broker.id" if version == "0" else "node.id")
    cluster_id = values.get("cluster.id")
    if version == "1" and (node_id is None or cluster_id is None):
        raise CorruptFile(f"{FILE_NAME} of version 1 lacks node.id or cluster.id")
    return MetaProperties(
        node_id=None if node_id is None else parse_number(node_id, INT32_MAX),
        cluster_id=cluster_id,
        directory_id=_checked_uuid(values.get("directory.id")),
    )


def load(disk: Disk, directory: PurePath) -> MetaProperties | None:
    """Read the file; None for a new directory. May raise `CorruptFile`."""
    content = read_whole(disk, directory / FILE_NAME)
    return None if content is None else decode(content)


def save(disk: Disk, directory: PurePath, meta: MetaProperties) -> None:
    """Write version 1; durable on return."""
    write_atomically(disk, directory / FILE_NAME, encode(meta))


def load_or_create(
    disk: Disk,
    directory: PurePath,
    *,
    node_id: int,
    cluster_id: str,
    new_id: Callable[[], str],
) -> str:
    """Return the directory id; write a new directory's, reject another broker's."""
    meta = load(disk, directory)
    if meta is not None:
        meta.check(node_id=node_id, cluster_id=cluster_id)
        if meta.directory_id is not None:
            return meta.directory_id
    directory_id = new_id()
    ours = MetaProperties(node_id=node_id, cluster_id=cluster_id, directory_id=directory_id)
    save(disk, directory, ours)
    return directory_id


def _checked_uuid(text: str | None) -> str | None:
    """Return the text if it is a UUID of 22 characters, else raise `CorruptFile`."""
    if text is None:
        return None
    try:
        canonical = str(TopicId.parse(text))
    except ProtocolError as error:
        raise CorruptFile(f"directory.id {text[:40]!r} is not a UUID") from error
    if canonical != text:
        raise CorruptFile(f"directory.id {text[:40]!r} is not a UUID in Kafka's form")
    return text
