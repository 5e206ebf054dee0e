"""Producer snapshot files: format, and which of them a log may use."""

import random
import struct
from pathlib import PurePath

import pytest
from crc32c import crc32c

from headwater.common.exceptions import CorruptFile
from headwater.storage.io.disk import read_whole
from headwater.storage.producer_state.producer_snapshot import (
    Snapshot,
    decode,
    encode,
    file_name,
    list_offsets,
    load_newest,
    remove_stray_snapshots,
    write,
)
from headwater.storage.producer_state.producer_state_manager import ProducerEntry
from tests.simulation.fakes.lossy_disk import LossyDisk

FOLDER = PurePath("/data/orders-0")

ENTRY = ProducerEntry(
    producer_id=7,
    epoch=2,
    last_sequence=41,
    last_offset=1041,
    last_offset_delta=3,
    timestamp=1_700_000_000_000,
    coordinator_epoch=5,
    transaction_first_offset=1000,
)
OTHER = ProducerEntry(producer_id=8, epoch=0, timestamp=1)


@pytest.fixture
def disk() -> LossyDisk:
    return a_disk(seed=1)


def save(disk: LossyDisk, folder: PurePath, offset: int, entries: list[ProducerEntry]) -> None:
    """Write a snapshot and sync it, as a flush of the log does."""
    file = write(disk, folder, offset, entries)
    file.sync()
    file.close()
    disk.sync_directory(folder)


def a_disk(seed: int) -> LossyDisk:
    """A disk with a durable partition directory."""
    disk = LossyDisk(random.Random(seed))
    disk.make_directory(FOLDER)
    disk.sync_directory(FOLDER.parent)
    disk.sync_directory(FOLDER.parent.parent)
    return disk


def overwrite(disk: LossyDisk, name: str, content: bytes) -> None:
    file = disk.open(FOLDER / name, create=True)
    file.truncate(0)
    file.write([content], 0)
    file.close()


def test_format_is_kafkas() -> None:
    """formats 5.6, field by field."""
    body = struct.pack(">i", 2)
    body += struct.pack(">qhiqiqiq", 7, 2, 41, 1041, 3, 1_700_000_000_000, 5, 1000)
    body += struct.pack(">qhiqiqiq", 8, 0, -1, -1, 0, 1, -1, -1)
    assert encode([ENTRY, OTHER]) == struct.pack(">hI", 1, crc32c(body)) + body


def test_snapshot_survives_a_round_trip() -> None:
    assert decode(encode([ENTRY, OTHER])) == [ENTRY, OTHER]
    assert decode(encode([])) == []


@pytest.mark.parametrize("position", range(0, 56, 5))
def test_flipped_bit_is_detected(position: int) -> None:
    """RC-4"""
    content = bytearray(encode([ENTRY]))
    content[position] ^= 4
    with pytest.raises(CorruptFile):
        decode(bytes(content))


def test_torn_snapshot_is_detected() -> None:
    """RC-4"""
    content = encode([ENTRY])
    for length in range(len(content)):
        with pytest.raises(CorruptFile):
            decode(content[:length])


def test_count_that_does_not_fit_the_size_is_detected_despite_a_valid_crc() -> None:
    body = struct.pack(">i", 2) + bytes(46)
    with pytest.raises(CorruptFile, match="2 producers"):
        decode(struct.pack(">hI", 1, crc32c(body)) + body)


def test_snapshots_are_listed_by_offset_and_other_files_are_not(disk: LossyDisk) -> None:
    for offset in (200, 5, 1000):
        save(disk, FOLDER, offset, [])
    overwrite(disk, "00000000000000000007.snapshot.deleted", b"")
    overwrite(disk, "00000000000000000007.log", b"")
    overwrite(disk, "7.snapshot", b"")
    assert list_offsets(disk, FOLDER) == [5, 200, 1000]
    assert file_name(5) == "00000000000000000005.snapshot"


def test_a_saved_snapshot_survives_a_power_cut(disk: LossyDisk) -> None:
    """RC-4"""
    save(disk, FOLDER, 100, [ENTRY])
    disk.power_cut()
    loaded = load_newest(disk, FOLDER, log_start_offset=0, log_end_offset=100)
    assert loaded == Snapshot(100, [ENTRY])


def test_a_shorter_snapshot_replaces_a_longer_one(disk: LossyDisk) -> None:
    save(disk, FOLDER, 100, [ENTRY, OTHER])
    save(disk, FOLDER, 100, [OTHER])
    assert read_whole(disk, FOLDER / file_name(100)) == encode([OTHER])


def test_newest_snapshot_within_the_log_is_loaded_and_others_outside_are_removed(
    disk: LossyDisk,
) -> None:
    """RC-4"""
    for offset in (50, 100, 200, 300, 301):
        save(disk, FOLDER, offset, [ENTRY])
    loaded = load_newest(disk, FOLDER, log_start_offset=100, log_end_offset=300)
    assert loaded is not None
    assert loaded.offset == 300
    assert list_offsets(disk, FOLDER) == [100, 200, 300]


def test_corrupt_snapshot_is_removed_and_an_older_one_loaded(disk: LossyDisk) -> None:
    """RC-4"""
    save(disk, FOLDER, 100, [ENTRY])
    overwrite(disk, file_name(200), encode([ENTRY])[:-1])
    overwrite(disk, file_name(300), b"")
    loaded = load_newest(disk, FOLDER, log_start_offset=0, log_end_offset=1000)
    assert loaded == Snapshot(100, [ENTRY])
    assert list_offsets(disk, FOLDER) == [100]


def test_no_snapshot_without_a_valid_one(disk: LossyDisk) -> None:
    overwrite(disk, file_name(5), b"nonsense")
    assert load_newest(disk, FOLDER, log_start_offset=0, log_end_offset=9) is None
    assert load_newest(disk, FOLDER / "absent", log_start_offset=0, log_end_offset=9) is None


@pytest.mark.parametrize("seed", range(10))
def test_power_cut_during_a_snapshot_leaves_the_older_or_the_complete_new_one(seed: int) -> None:
    """RC-4"""
    disk = a_disk(seed)
    save(disk, FOLDER, 100, [ENTRY])
    many = [ProducerEntry(producer_id=number, epoch=0) for number in range(300)]
    file = disk.open(FOLDER / file_name(200), create=True)
    file.write([encode(many)], 0)
    disk.power_cut()
    loaded = load_newest(disk, FOLDER, log_start_offset=0, log_end_offset=200)
    assert loaded in (Snapshot(100, [ENTRY]), Snapshot(200, many))


def test_snapshots_without_a_segment_are_removed_except_the_newest(disk: LossyDisk) -> None:
    for offset in (10, 100, 150, 200, 250):
        save(disk, FOLDER, offset, [])
    remove_stray_snapshots(disk, FOLDER, {100, 200})
    assert list_offsets(disk, FOLDER) == [100, 200, 250]
    remove_stray_snapshots(disk, FOLDER, {100, 200, 300})
    assert list_offsets(disk, FOLDER) == [100, 200]
