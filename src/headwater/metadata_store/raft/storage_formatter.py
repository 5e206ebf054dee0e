"""Format a KRaft node's log directories (Kafka: Formatter).

    meta.properties                          node id, cluster id, directory id
    bootstrap.checkpoint                     feature levels and SCRAM credentials of a new cluster
    __cluster_metadata-0/0...0-0...0.checkpoint   the first voters of a dynamic quorum (KIP-853)

`meta.properties` is written last: a directory that has one is formatted completely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from headwater.common.exceptions import InvalidSetting, StorageError
from headwater.common.ids import TopicId
from headwater.common.ports import Random
from headwater.metadata.metadata_record_serde import ApiMessageAndVersion, newest
from headwater.metadata.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
)
from headwater.metadata_store.raft.kafka_raft_log import DIRECTORY_NAME
from headwater.metadata_store.raft.metadata_loader import batches_of
from headwater.metadata_store.raft.metadata_version import METADATA_VERSION, release_of_level
from headwater.metadata_store.raft.snapshot_files import SnapshotFiles
from headwater.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from headwater.raft.snapshots import build_snapshot
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from headwater.storage.io.disk import Disk, make_directory_durably, write_atomically
from headwater.storage.log_manager import meta_properties
from headwater.storage.log_manager.meta_properties import MetaProperties

BOOTSTRAP_FILE_NAME: Final = "bootstrap.checkpoint"
UUID_BYTES: Final = 16
# Reserved: the zero id, the id of the metadata topic, and the directory ids MIGRATING and others.
_RESERVED_IDS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialController:
    """One of the first voters: id@host:port:directoryId."""

    node_id: int
    host: str
    port: int
    directory_id: TopicId

    @classmethod
    def parse(cls, text: str) -> InitialController:
        node_id, at, rest = text.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, colon, port = address.rpartition(":")
        is_valid = at and colon and host and node_id.isdecimal() and port.isdecimal()
        if not is_valid or len(directory) != 22:
            raise InvalidSetting(f"{text!r} must be id@host:port:directoryId")
        return cls(
            node_id=int(node_id),
            host=host.strip("[]"),
            port=int(port),
            directory_id=TopicId.parse(directory),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """What to format, and with what."""

    node_id: int
    cluster_id: str
    directories: tuple[PurePath, ...]
    metadata_directory: PurePath
    # The levels of new features, metadata.version first.
    features: dict[str, int]
    scram: tuple[UserScramCredentialRecord, ...] = ()
    controller_listener: str | None = None
    # None for a static quorum, and for a node that joins a dynamic one later.
    initial_controllers: tuple[InitialController, ...] | None = None
    # A node that is the only voter, at this address.
    standalone: tuple[str, int] | None = None
    ignores_formatted: bool = False
    # All records of the bootstrap checkpoint, instead of features and credentials.
    records: tuple[ApiMessageAndVersion, ...] | None = None


def random_uuid(random: Random) -> TopicId:
    """A random id, never a reserved one and never with a leading dash, as Kafka's."""
    while True:
        content = bytearray(random.bytes(UUID_BYTES))
        content[6] = (content[6] & 0x0F) | 0x40
        content[8] = (content[8] & 0x3F) | 0x80
        found = TopicId(bytes(content))
        if int.from_bytes(content, "big") >= _RESERVED_IDS and not str(found).startswith("-"):
            return found


def format_storage(request: FormatRequest, *, disk: Disk, random: Random, now_ms: int) -> list[str]:
    """Format all directories that are not formatted; return a line for each.

    Raises StorageError if one is formatted already and that is not to be ignored, before anything
    is written.
    """
    _check_cluster_id(request.cluster_id)
    new: list[PurePath] = []
    for directory in request.directories:
        meta = meta_properties.load(disk, directory)
        if meta is None:
            new.append(directory)
            continue
        if not request.ignores_formatted:
            raise StorageError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore "
                "this directory and format the others."
            )
        meta.check(node_id=request.node_id, cluster_id=request.cluster_id)
    if not new:
        return ["All of the log directories are already formatted."]
    bootstrap = bootstrap_checkpoint(request, now_ms)
    return [format_directory(request, each, bootstrap, disk, random, now_ms) for each in new]


def _check_cluster_id(cluster_id: str) -> None:
    if not cluster_id.strip():
        raise InvalidSetting("the cluster id must not be empty")


def bootstrap_checkpoint(request: FormatRequest, now_ms: int) -> bytes:
    """The records that the first active controller writes into the metadata log."""
    records = request.records
    if records is None:
        new: list[MetadataRecord] = [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in request.features.items()
        ]
        new.extend(request.scram)
        records = tuple(newest(each) for each in new)
    return build_snapshot(
        BOOTSTRAP_SNAPSHOT_ID,
        batches=list(batches_of(records, timestamp=now_ms)),
        last_contained_log_timestamp=0,
        kraft_version=0,
        voters=None,
    )


def format_directory(
    request: FormatRequest,
    directory: PurePath,
    bootstrap: bytes,
    disk: Disk,
    random: Random,
    now_ms: int,
) -> str:
    """Write the files of one directory; an earlier directory id is kept."""
    make_directory_durably(disk, directory)
    # First: a node that starts without it would begin with an empty cluster.
    write_atomically(disk, directory / BOOTSTRAP_FILE_NAME, bootstrap)
    directory_id = _directory_id(request, directory, disk, random)
    voters = None
    if directory == request.metadata_directory:
        voters = _initial_voters(request, directory_id)
    if voters is not None:
        log_directory = directory / DIRECTORY_NAME
        make_directory_durably(disk, log_directory)
        writer = SnapshotFiles(disk, log_directory).create(BOOTSTRAP_SNAPSHOT_ID)
        # Left by an attempt that did not get to meta.properties.
        if writer is None:
            path = log_directory / "00000000000000000000-0000000000.checkpoint"
            disk.remove(path)
            writer = SnapshotFiles(disk, log_directory).create(BOOTSTRAP_SNAPSHOT_ID)
        assert writer is not None
        writer.append(
            build_snapshot(
                BOOTSTRAP_SNAPSHOT_ID,
                batches=[],
                last_contained_log_timestamp=now_ms,
                kraft_version=1,
                voters=voters,
            )
        )
        writer.freeze()
    meta_properties.save(
        disk,
        directory,
        MetaProperties(
            node_id=request.node_id, cluster_id=request.cluster_id, directory_id=str(directory_id)
        ),
    )
    return (
        f"Formatting {_kind(request, directory, voters)} {directory} with metadata.version "
        f"{release_of_level(request.features[METADATA_VERSION])}."
    )


def _kind(request: FormatRequest, directory: PurePath, voters: VoterSet | None) -> str:
    """Kafka's names of directories."""
    if voters is not None:
        return "dynamic metadata voter directory"
    if directory == request.metadata_directory:
        return "metadata directory"
    return "data directory"


def _directory_id(
    request: FormatRequest, directory: PurePath, disk: Disk, random: Random
) -> TopicId:
    if directory == request.metadata_directory:
        for each in request.initial_controllers or ():
            if each.node_id == request.node_id:
                return each.directory_id
    meta = meta_properties.load(disk, directory)
    if meta is not None and meta.directory_id is not None:
        return TopicId.parse(meta.directory_id)
    return random_uuid(random)


def _initial_voters(request: FormatRequest, directory_id: TopicId) -> VoterSet | None:
    controllers: Sequence[InitialController] = request.initial_controllers or ()
    if request.standalone is not None:
        host, port = request.standalone
        controllers = [
            InitialController(
                node_id=request.node_id, host=host, port=port, directory_id=directory_id
            )
        ]
    if not controllers:
        return None
    assert request.controller_listener is not None
    listener = request.controller_listener
    return VoterSet.of(
        VoterNode(
            key=ReplicaKey(each.node_id, each.directory_id),
            endpoints=(Endpoint(listener, each.host, each.port),),
        )
        for each in controllers
    )
