"""`meta.properties`: which node and cluster a log directory belongs to.

Two versions are read. Version 0 is of Kafka's ZooKeeper days, calls the node `broker.id`, and may
lack everything, since those brokers learned their cluster only after the first start. Version 1
calls it `node.id` and is what is written.
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
    """What a log directory says of itself; None where a version 0 file is silent."""

    node_id: int | None
    cluster_id: str | None
    directory_id: str | None = None

    def check(self, *, node_id: int, cluster_id: str) -> None:
        """Refuse a directory that another node or cluster has written."""
        if self.cluster_id is not None and self.cluster_id != cluster_id:
            raise WrongLogDirectory(
                f"the log directory belongs to cluster {self.cluster_id}, not to {cluster_id}"
            )
        if self.node_id is not None and self.node_id != node_id:
            raise WrongLogDirectory(
                f"the log directory belongs to node {self.node_id}, not to {node_id}"
            )


def encode(meta: MetaProperties) -> bytes:
    """A version 1 file, which needs a node and a cluster."""
    assert meta.node_id is not None, "version 1 names its node"
    assert meta.cluster_id is not None, "version 1 names its cluster"
    values = {"version": "1", "node.id": str(meta.node_id), "cluster.id": meta.cluster_id}
    if meta.directory_id is not None:
        values["directory.id"] = meta.directory_id
    return format_properties(values)


def decode(content: bytes) -> MetaProperties:
    """Either version, or `CorruptFile`. Keys that nobody knows are ignored."""
    try:
        values = parse_properties(content)
    except ValueError as error:
        raise CorruptFile(f"{FILE_NAME} is no properties file: {error}") from error
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
    """What the directory says, None for a new one. May raise `CorruptFile`."""
    content = read_whole(disk, directory / FILE_NAME)
    return None if content is None else decode(content)


def save(disk: Disk, directory: PurePath, meta: MetaProperties) -> None:
    """Write version 1; durable on return."""
    write_atomically(disk, directory / FILE_NAME, encode(meta))


def claim(
    disk: Disk,
    directory: PurePath,
    *,
    node_id: int,
    cluster_id: str,
    new_id: Callable[[], str],
) -> str:
    """The id of a directory that is ours, or that is ours from now on; another's is refused."""
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
    """The text itself, when it is a UUID in Kafka's 22 characters."""
    if text is None:
        return None
    try:
        canonical = str(TopicId.parse(text))
    except ProtocolError as error:
        raise CorruptFile(f"directory.id {text[:40]!r} is not a UUID") from error
    if canonical != text:
        raise CorruptFile(f"directory.id {text[:40]!r} is not a UUID in Kafka's form")
    return text
