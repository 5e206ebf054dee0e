"""Small files of a log directory: checkpoints, meta.properties, clean shutdown, directory names."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import CorruptFile, WrongLogDirectory
from headwater.common.ids import TopicId, TopicPartition
from headwater.storage.log import leader_epoch_checkpoint, partition_metadata_file
from headwater.storage.log.leader_epoch_checkpoint import EpochEntry
from headwater.storage.log_manager import checkpoints, clean_shutdown_file, meta_properties
from headwater.storage.log_manager.clean_shutdown_file import CleanShutdown
from headwater.storage.log_manager.meta_properties import MetaProperties
from headwater.storage.log_manager.partition_directory_names import (
    DirectoryKind,
    PartitionDirectory,
    deleted_name,
    future_name,
    live_name,
    parse_directory_name,
    stray_name,
)
from tests.simulation.fakes.lossy_disk import LossyDisk

DIRECTORY = PurePath("/data")
ORDERS = TopicPartition("orders", 0)
UNIQUE = bytes(range(16))
UUID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def disk() -> LossyDisk:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(DIRECTORY)
    disk.sync_directory(DIRECTORY.parent)
    return disk


def test_offset_checkpoint_has_kafkas_format() -> None:
    """formats 5.5"""
    offsets = {
        TopicPartition("a.b_c-1", 3): 1041,
        TopicPartition("__consumer_offsets", 0): 2**63 - 1,
    }
    content = b"0\n2\na.b_c-1 3 1041\n__consumer_offsets 0 9223372036854775807\n"
    assert checkpoints.encode_offsets(offsets) == content
    assert checkpoints.decode_offsets(content) == offsets


def test_an_empty_or_missing_checkpoint_has_no_entries(disk: LossyDisk) -> None:
    """Kafka creates the file before it has anything to write."""
    assert checkpoints.decode_offsets(b"") == {}
    assert checkpoints.decode_offsets(b"0\n0\n") == {}
    assert checkpoints.load_offsets(disk, DIRECTORY / checkpoints.HIGH_WATERMARKS) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"\n",
        b"0\n",
        b"0\n1\n",
        b"0\n0\na 0 0\n",
        b"0\n-1\n",
        b"0\n1\na 0 12",
        b"0\n1\na 0\n",
        b"0\n1\na 0 0 0\n",
        b"0\n1\n 0 0\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 +1\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na 2147483648 0\n",
        b"0\n1\na 0 9223372036854775808\n",
        "0\n1\na 0 ٣\n".encode(),
        b"0\n1\n\xff 0 0\n",
    ],
)
def test_corrupt_checkpoint_is_rejected(content: bytes) -> None:
    """formats 5.5"""
    with pytest.raises(CorruptFile):
        checkpoints.decode_offsets(content)


def test_a_saved_checkpoint_survives_a_power_cut(disk: LossyDisk) -> None:
    path = DIRECTORY / checkpoints.RECOVERY_POINTS
    checkpoints.save_offsets(disk, path, {ORDERS: 1})
    checkpoints.save_offsets(disk, path, {ORDERS: 2})
    disk.power_cut()
    assert checkpoints.load_offsets(disk, path) == {ORDERS: 2}


def test_saved_leader_epochs_survive_a_power_cut(disk: LossyDisk) -> None:
    epochs = leader_epoch_checkpoint.load(disk, DIRECTORY)
    epochs.assign(3, 10)
    leader_epoch_checkpoint.save(disk, DIRECTORY, epochs)
    assert not epochs.unsaved
    disk.power_cut()
    loaded = leader_epoch_checkpoint.load(disk, DIRECTORY)
    assert loaded.entries() == [EpochEntry(3, 10)]
    assert not loaded.unsaved


def test_version_1_of_meta_properties_is_written_and_read(disk: LossyDisk) -> None:
    """formats 5.5"""
    meta = MetaProperties(node_id=3, cluster_id="q1Sh-9_ISia_zwGINzRvyQ", directory_id=UUID)
    assert meta_properties.encode(meta) == (
        b"version=1\nnode.id=3\ncluster.id=q1Sh-9_ISia_zwGINzRvyQ\n"
        b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    assert meta_properties.load(disk, DIRECTORY) is None
    meta_properties.save(disk, DIRECTORY, meta)
    disk.power_cut()
    assert meta_properties.load(disk, DIRECTORY) == meta


def test_version_0_of_meta_properties_is_read_as_kafka_wrote_it() -> None:
    """formats 5.5"""
    content = b"#\n#Tue Mar 05 10:11:12 UTC 2024\ncluster.id=abc\nbroker.id=7\nversion=0\n"
    assert meta_properties.decode(content) == MetaProperties(node_id=7, cluster_id="abc")
    assert meta_properties.decode(b"") == MetaProperties(node_id=None, cluster_id=None)


@pytest.mark.parametrize(
    "content",
    [
        b"version=2\nnode.id=1\ncluster.id=a\n",
        b"version=1\nbroker.id=1\ncluster.id=a\n",
        b"version=1\nnode.id=1\n",
        b"version=1\nnode.id=one\ncluster.id=a\n",
        b"version=1\nnode.id=1\ncluster.id=a\ndirectory.id=short\n",
        b"version=1\nnode.id=1\ncluster.id=a\ndirectory.id=AAAAAAAAAAAAAAAAAAAA!AQ\n",
        b"cluster.id=\\u12\n",
        b"cluster.id=\\ud800\n",
    ],
)
def test_corrupt_meta_properties_is_rejected(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        meta_properties.decode(content)


def test_directory_of_another_node_or_cluster_is_rejected() -> None:
    """formats 5.5"""
    meta = MetaProperties(node_id=3, cluster_id="mine")
    meta.check(node_id=3, cluster_id="mine")
    with pytest.raises(WrongLogDirectory, match="node 3, not to 4"):
        meta.check(node_id=4, cluster_id="mine")
    with pytest.raises(WrongLogDirectory, match="cluster mine, not to yours"):
        meta.check(node_id=3, cluster_id="yours")
    MetaProperties(node_id=None, cluster_id=None).check(node_id=4, cluster_id="mine")


def test_partition_metadata_has_kafkas_format(disk: LossyDisk) -> None:
    """formats 5.5"""
    topic_id = TopicId.parse(UUID)
    content = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    assert partition_metadata_file.encode(topic_id) == content
    assert partition_metadata_file.decode(content) == topic_id
    assert partition_metadata_file.decode(content[:-1]) == topic_id
    assert partition_metadata_file.load(disk, DIRECTORY) is None
    partition_metadata_file.write(disk, DIRECTORY, TopicId(bytes(range(16))))
    partition_metadata_file.write(disk, DIRECTORY, topic_id)
    assert partition_metadata_file.load(disk, DIRECTORY) == topic_id


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAAA\n",
        b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ\nversion: 0\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
    ],
)
def test_corrupt_partition_metadata_is_rejected(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        partition_metadata_file.decode(content)


def test_clean_shutdown_file_has_the_broker_epoch(disk: LossyDisk) -> None:
    """RC-1"""
    assert clean_shutdown_file.load(disk, DIRECTORY) is None
    clean_shutdown_file.save(disk, DIRECTORY, 42)
    disk.power_cut()
    assert clean_shutdown_file.load(disk, DIRECTORY) == CleanShutdown(42)
    assert clean_shutdown_file.encode(42) == b'{"version":0,"brokerEpoch":42}'


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b'{"brokerEpoch":"x"}', b"[" * 9999]
)
def test_unreadable_clean_shutdown_file_still_counts(content: bytes) -> None:
    """RC-1: old brokers left the file empty."""
    assert clean_shutdown_file.decode(content) == CleanShutdown(None)


@pytest.mark.parametrize("seed", range(5))
def test_removed_clean_shutdown_file_does_not_come_back_after_a_power_cut(seed: int) -> None:
    """RC-1"""
    disk = LossyDisk(random.Random(seed))
    disk.make_directory(DIRECTORY)
    disk.sync_directory(DIRECTORY.parent)
    clean_shutdown_file.save(disk, DIRECTORY, 42)
    clean_shutdown_file.remove(disk, DIRECTORY)
    disk.power_cut()
    assert clean_shutdown_file.load(disk, DIRECTORY) is None


@pytest.mark.parametrize("topic", ["orders", "a-b", "a-0", "x.y", "a-", "b.c-delete", "__x"])
def test_directory_name_is_parsed_from_its_end(topic: str) -> None:
    """formats 5"""
    partition = TopicPartition(topic, 12)
    assert parse_directory_name(live_name(partition)) == PartitionDirectory(
        partition, DirectoryKind.LIVE
    )
    for name, kind in (
        (deleted_name(partition, UNIQUE), DirectoryKind.DELETED),
        (future_name(partition, UNIQUE), DirectoryKind.FUTURE),
        (stray_name(partition, UNIQUE), DirectoryKind.STRAY),
    ):
        assert name == f"{topic}-12.000102030405060708090a0b0c0d0e0f{kind.value}"
        assert parse_directory_name(name) == PartitionDirectory(partition, kind)


def test_topic_in_a_delete_name_is_shortened_to_255_characters() -> None:
    """formats 5"""
    longest = TopicPartition("t" * 249, 1234)
    for name in (deleted_name(longest, UNIQUE), stray_name(longest, UNIQUE)):
        assert len(name) == 255
        found = parse_directory_name(name)
        assert found is not None
        assert found.partition.partition == 1234


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "orders",
        "orders-",
        "-0",
        "orders-x",
        "orders-01",
        "orders-+1",
        "orders-2147483648",
        "orders-0-delete",
        "orders-0.abc-gone",
        "or ders-0",
    ],
)
def test_other_directories_are_recognised(name: str) -> None:
    assert parse_directory_name(name) is None
