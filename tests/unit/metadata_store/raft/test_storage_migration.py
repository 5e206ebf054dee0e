"""Directories of ZooKeeper nodes become those of KRaft nodes, with interruptions."""

from pathlib import Path, PurePath
from typing import Any

import pytest

from headwater.common.exceptions import StorageError, WrongLogDirectory
from headwater.common.ids import NodeId, TopicId
from headwater.metadata.changes import TopicCreated, apply
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.metadata.record_writer import RecordWriter
from headwater.metadata_store.raft.metadata_loader import records_in
from headwater.metadata_store.raft.storage_formatter import (
    BOOTSTRAP_FILE_NAME,
    FormatRequest,
    InitialController,
)
from headwater.metadata_store.raft.storage_migration import check_migration, migrate_storage
from headwater.network.system_clock import SystemRandom
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.log_manager import meta_properties
from headwater.storage.log_manager.meta_properties import MetaProperties

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = TopicId(b"a directory's id")
CONTROLLERS = (
    InitialController(node_id=1, host="127.0.0.1", port=9093, directory_id=DIRECTORY_ID),
)


def image_of(partitions: int) -> ClusterImage:
    each = PartitionRegistration(
        replicas=(NodeId(1), NodeId(2)),
        isr=(NodeId(2),),
        leader=NO_LEADER,
        leader_epoch=7,
        partition_epoch=9,
    )
    topic = TopicImage(
        name="orders", topic_id=TopicId(b"the topic's id.."), partitions=(each,) * partitions
    )
    return apply(
        ClusterImage(cluster_id=CLUSTER_ID, features={"metadata.version": 27}),
        [TopicCreated(topic)],
        FIRST_VERSION,
    )


IMAGE = image_of(3)


def request_of(folder: Path, **changes: Any) -> FormatRequest:
    values: dict[str, Any] = {
        "node_id": 1,
        "cluster_id": CLUSTER_ID,
        "directories": (folder / "a", folder / "b"),
        "metadata_directory": folder / "b",
        "features": {"metadata.version": 27},
        "controller_listener": "CONTROLLER",
        "initial_controllers": CONTROLLERS,
        "records": tuple(RecordWriter(AclIds()).image_records(IMAGE)),
        **changes,
    }
    return FormatRequest(**values)


def old_directories(folder: Path) -> None:
    """Of a broker on ZooKeeper: version 0 of meta.properties and data."""
    for name in ("a", "b"):
        (folder / name / "orders-0").mkdir(parents=True)
        (folder / name / "orders-0" / "00000000000000000000.log").write_bytes(b"data")
        (folder / name / "meta.properties").write_text(
            f"version=0\nbroker.id=1\ncluster.id={CLUSTER_ID}\n"
        )


def migrate(request: FormatRequest, disk: Any) -> None:
    check_migration(request, disk=disk)
    migrate_storage(request, disk=disk, random=SystemRandom(), now_ms=1)


def check_migrated(folder: Path) -> None:
    content = (folder / "b" / BOOTSTRAP_FILE_NAME).read_bytes()
    empty = ClusterImage(cluster_id=CLUSTER_ID)
    image = apply(empty, RecordReplay(AclIds()).replay(records_in(content), empty), FIRST_VERSION)
    assert image.topics == IMAGE.topics
    assert image.features == IMAGE.features
    for name in ("a", "b"):
        meta = meta_properties.load(OsDisk(), folder / name)
        assert meta is not None
        assert (meta.node_id, meta.cluster_id) == (1, CLUSTER_ID)
        assert meta.directory_id is not None
        log = folder / name / "orders-0" / "00000000000000000000.log"
        assert log.read_bytes() == b"data"
    meta = meta_properties.load(OsDisk(), folder / "b")
    assert meta is not None
    assert meta.directory_id == str(DIRECTORY_ID)
    assert [each.name for each in (folder / "b/__cluster_metadata-0").iterdir()] == [
        "00000000000000000000-0000000000.checkpoint"
    ]


class Interrupted(Exception):
    """The process is killed here."""


class InterruptedDisk:
    """A disk whose process is killed before the n-th operation."""

    def __init__(self, operations: int) -> None:
        self._disk = OsDisk()
        self._left = operations

    def __getattr__(self, name: str) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Interrupted
        return getattr(self._disk, name)


def test_an_interrupted_migration_is_completed_by_the_next_one(tmp_path: Path) -> None:
    operations = 0
    while True:
        folder = tmp_path / str(operations)
        old_directories(folder)
        try:
            migrate(request_of(folder), InterruptedDisk(operations))
        except Interrupted:
            migrate(request_of(folder), OsDisk())
            check_migrated(folder)
            operations += 1
            continue
        check_migrated(folder)
        break
    assert operations > 20


def test_no_node_can_start_with_a_part_of_the_metadata(tmp_path: Path) -> None:
    """A voter has the bootstrap checkpoint before it has its voters or its directory id."""
    for operations in range(200):
        folder = tmp_path / str(operations)
        old_directories(folder)
        try:
            migrate(request_of(folder), InterruptedDisk(operations))
        except Interrupted:
            voters = (folder / "b/__cluster_metadata-0").exists()
            meta = meta_properties.load(OsDisk(), folder / "b")
            assert meta is not None
            if voters or meta.directory_id is not None:
                content = (folder / "b" / BOOTSTRAP_FILE_NAME).read_bytes()
                assert len(records_in(content)) == 5
            continue
        break


def test_a_directory_keeps_its_id(tmp_path: Path) -> None:
    old_directories(tmp_path)
    own = str(TopicId(b"its own id of it"))
    meta_properties.save(
        OsDisk(),
        PurePath(tmp_path / "a"),
        MetaProperties(node_id=1, cluster_id=CLUSTER_ID, directory_id=own),
    )
    migrate(request_of(tmp_path), OsDisk())
    check_migrated(tmp_path)
    meta = meta_properties.load(OsDisk(), tmp_path / "a")
    assert meta is not None
    assert meta.directory_id == own


def test_directories_of_others_and_of_a_started_quorum_are_refused(tmp_path: Path) -> None:
    old_directories(tmp_path)
    with pytest.raises(WrongLogDirectory, match="belongs to node 1"):
        migrate(request_of(tmp_path, node_id=2), OsDisk())
    with pytest.raises(WrongLogDirectory, match="belongs to cluster"):
        migrate(request_of(tmp_path, cluster_id="other"), OsDisk())
    migrate(request_of(tmp_path), OsDisk())
    (tmp_path / "b/__cluster_metadata-0/quorum-state").write_text("{}")
    with pytest.raises(StorageError, match="was started with KRaft already"):
        migrate(request_of(tmp_path), OsDisk())
