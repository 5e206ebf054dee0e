"""IndexFile when writes fail."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError
from headwater.storage.index.offset_index import OffsetIndex
from headwater.storage.io.disk import read_whole
from headwater.storage.io.open_files import OpenFiles
from tests.simulation.fakes.lossy_disk import LossyDisk

FOLDER = PurePath("/data/orders-0")
PATH = FOLDER / "00000000000000000000.index"


def test_bytes_of_a_failed_write_are_removed_by_the_next_one() -> None:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(FOLDER)
    index = OffsetIndex(OpenFiles(disk, 10), PATH, base_offset=0, max_bytes=8_000)
    index.begin()
    for number in range(1, 5):
        index.append(number, number * 100)
    # Room for one entry and a part of the second.
    disk.fill(11)
    with pytest.raises(StorageError):
        index.write_out()
    assert len(read_whole(disk, PATH)) == 11
    disk.make_room()
    index.truncate(1)
    index.write_out()
    assert len(read_whole(disk, PATH)) == 8
    assert (len(index), index.has_whole_entries) == (1, True)
