"""TransactionIndex, and what a read_committed fetch takes from it."""

import random
import struct
from pathlib import PurePath

import pytest

from headwater.common.exceptions import CorruptFile
from headwater.storage.index.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    collect_aborted,
)
from headwater.storage.io.disk import read_whole
from tests.simulation.fakes.lossy_disk import LossyDisk

FOLDER = PurePath("/data/orders-0")
PATH = FOLDER / "00000000000000000000.txnindex"

FIRST = AbortedTransaction(producer_id=1, first_offset=10, last_offset=20, last_stable_offset=5)
SECOND = AbortedTransaction(producer_id=2, first_offset=5, last_offset=30, last_stable_offset=25)
THIRD = AbortedTransaction(producer_id=3, first_offset=25, last_offset=40, last_stable_offset=41)


@pytest.fixture
def disk() -> LossyDisk:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(FOLDER)
    disk.sync_directory(FOLDER.parent)
    disk.sync_directory(FOLDER.parent.parent)
    return disk


def filled(disk: LossyDisk, *aborted: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex(disk, PATH, base_offset=0)
    for transaction in aborted:
        index.append(transaction)
    return index


def test_no_file_before_the_first_aborted_transaction(disk: LossyDisk) -> None:
    """formats 5.4"""
    index = TransactionIndex(disk, PATH, base_offset=0)
    assert index.collect(0, 100) == ([], False)
    index.truncate_to(0)
    index.sync()
    index.check(end_offset=0)
    assert disk.names(FOLDER) == []


def test_format_is_kafkas(disk: LossyDisk) -> None:
    """formats 5.4"""
    filled(disk, FIRST, SECOND)
    expected = struct.pack(">hqqqq", 0, 1, 10, 20, 5) + struct.pack(">hqqqq", 0, 2, 5, 30, 25)
    assert read_whole(disk, PATH) == expected


def test_index_is_reopened_and_appended_to(disk: LossyDisk) -> None:
    filled(disk, FIRST, SECOND)
    again = TransactionIndex(disk, PATH, base_offset=0)
    again.append(THIRD)
    assert len(again) == 3
    assert again.entries() == [FIRST, SECOND, THIRD]
    again.check(end_offset=41)


@pytest.mark.parametrize(
    ("fetch_offset", "upper_offset", "found", "complete"),
    [
        (0, 100, [FIRST, SECOND, THIRD], False),
        (0, 41, [FIRST, SECOND, THIRD], True),
        (0, 25, [FIRST, SECOND], True),
        (0, 26, [FIRST, SECOND, THIRD], True),
        (0, 5, [], True),
        (0, 6, [SECOND], True),
        (20, 22, [FIRST, SECOND], True),
        (21, 22, [SECOND], True),
        (31, 100, [THIRD], False),
        (41, 100, [], False),
    ],
)
def test_fetch_gets_transactions_that_overlap_its_range(
    disk: LossyDisk,
    fetch_offset: int,
    upper_offset: int,
    found: list[AbortedTransaction],
    complete: bool,
) -> None:
    """formats 5.4, LSO-2"""
    index = filled(disk, FIRST, SECOND, THIRD)
    assert index.collect(fetch_offset, upper_offset) == (found, complete)


def test_fetch_reads_later_segments_until_all_transactions_are_decided(disk: LossyDisk) -> None:
    """formats 5.4: the marker may be segments after the data."""
    empty = TransactionIndex(disk, FOLDER / "a", base_offset=0)
    long_ago = TransactionIndex(disk, FOLDER / "b", base_offset=100)
    long_ago.append(AbortedTransaction(1, 10, 120, 30))
    decided = TransactionIndex(disk, FOLDER / "c", base_offset=200)
    decided.append(AbortedTransaction(2, 30, 220, 221))
    later = TransactionIndex(disk, FOLDER / "d", base_offset=300)
    later.append(AbortedTransaction(3, 40, 320, 321))
    indexes = [empty, long_ago, decided, later]
    assert collect_aborted(indexes, fetch_offset=10, upper_offset=20) == [
        AbortedTransaction(1, 10, 120, 30)
    ]
    assert collect_aborted(indexes, fetch_offset=10, upper_offset=50) == [
        AbortedTransaction(1, 10, 120, 30),
        AbortedTransaction(2, 30, 220, 221),
    ]


def test_a_long_index_is_read_in_pieces(disk: LossyDisk) -> None:
    many = [AbortedTransaction(n, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(2500)]
    index = filled(disk, *many)
    assert index.entries() == many
    assert index.collect(10_000, 24_000) == (many[1000:2400], True)


@pytest.mark.parametrize(("offset", "kept"), [(41, 3), (40, 2), (30, 1), (21, 1), (20, 0), (0, 0)])
def test_truncation_removes_markers_at_or_after_the_offset(
    disk: LossyDisk, offset: int, kept: int
) -> None:
    index = filled(disk, FIRST, SECOND, THIRD)
    index.truncate_to(offset)
    assert index.entries() == [FIRST, SECOND, THIRD][:kept]
    assert TransactionIndex(disk, PATH, base_offset=0).entries() == index.entries()
    assert (disk.status(PATH) is None) is (kept == 0)


def test_synced_entries_survive_a_power_cut(disk: LossyDisk) -> None:
    index = filled(disk, FIRST, SECOND)
    index.sync()
    disk.sync_directory(FOLDER)
    disk.power_cut()
    assert TransactionIndex(disk, PATH, base_offset=0).entries() == [FIRST, SECOND]


def test_torn_entry_is_detected_on_open(disk: LossyDisk) -> None:
    filled(disk, FIRST, SECOND)
    disk.open(PATH).truncate(67)
    with pytest.raises(CorruptFile):
        TransactionIndex(disk, PATH, base_offset=0)


@pytest.mark.parametrize(
    "entries",
    [
        [struct.pack(">hqqqq", 1, 1, 110, 120, 105)],
        [struct.pack(">hqqqq", 0, 1, 10, 99, 105)],
        [struct.pack(">hqqqq", 0, 1, 110, 200, 105)],
        [struct.pack(">hqqqq", 0, 1, 121, 120, 105)],
        [struct.pack(">hqqqq", 0, 1, -1, 120, 105)],
        [struct.pack(">hqqqq", 0, 1, 110, 120, 105), struct.pack(">hqqqq", 0, 1, 110, 120, 105)],
        [bytes(34)],
    ],
)
def test_entries_outside_the_segment_are_detected(disk: LossyDisk, entries: list[bytes]) -> None:
    """RC-1"""
    disk.open(PATH, create=True).write(entries, 0)
    with pytest.raises(CorruptFile):
        TransactionIndex(disk, PATH, base_offset=100).check(end_offset=200)


def test_zeros_after_a_power_cut_are_detected_in_the_first_segment_too(disk: LossyDisk) -> None:
    """RC-1: zeros look like a transaction at offset 0."""
    disk.open(PATH, create=True).write([bytes(34)], 0)
    with pytest.raises(CorruptFile):
        TransactionIndex(disk, PATH, base_offset=0).check(end_offset=200)


def test_shrunken_index_is_detected(disk: LossyDisk) -> None:
    index = filled(disk, FIRST, SECOND)
    disk.open(PATH).truncate(34)
    with pytest.raises(CorruptFile):
        index.collect(0, 100)
