"""What the cruel disk may do, shown over many seeds: each outcome it promises must occur."""

import random
from collections.abc import Callable
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError
from headwater.storage.io.disk import read_whole, write_atomically
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.lossy_file import PAGE_BYTES, SECTOR_BYTES

ROOT = PurePath("/")
LOG = ROOT / "log"


def a_disk(seed: int = 1) -> LossyDisk:
    return LossyDisk(random.Random(seed))


def a_synced_file(disk: LossyDisk, path: PurePath, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write([content], 0)
    file.sync()
    disk.sync_directory(path.parent)


def outcomes(disk: LossyDisk, look: Callable[[LossyDisk], object], seeds: int = 300) -> set[object]:
    return {look(disk.copy(random.Random(seed)).power_cut()) for seed in range(seeds)}


def content(path: PurePath) -> Callable[[LossyDisk], object]:
    return lambda disk: read_whole(disk, path)


def names(disk: LossyDisk) -> object:
    return tuple(disk.names(ROOT))


def test_any_unsynced_page_may_be_lost_by_itself() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"o" * 3 * PAGE_BYTES)
    disk.open(LOG).write([b"n" * 3 * PAGE_BYTES], 0)

    def pages(disk: LossyDisk) -> object:
        found = read_whole(disk, LOG) or b""
        return "".join(chr(found[page * PAGE_BYTES + PAGE_BYTES - 1]) for page in range(3))

    assert len(outcomes(disk, pages)) == 8


def test_a_page_may_be_torn_between_sectors() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"o" * PAGE_BYTES)
    disk.open(LOG).write([b"n" * PAGE_BYTES], 0)
    torn_at = {str(found).count("n") for found in outcomes(disk, content(LOG))}
    sectors = {sector * SECTOR_BYTES for sector in range(9)}
    assert sectors <= torn_at
    # One more: the write had two steps, and the page may have gone to the disk between them.
    assert len(torn_at - sectors) <= 1


def test_an_unsynced_size_may_be_any_that_the_file_had_and_holes_are_zeros() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"old")
    disk.open(LOG).write([b"new"], 3)
    file = disk.open(LOG)
    file.write([b"er"], 6)
    found = outcomes(disk, content(LOG))
    assert {b"old", b"oldnew", b"oldnewer", b"old\0\0\0", b"old\0\0\0\0\0", b"oldnew\0\0"} <= found


def test_bytes_from_before_a_truncation_do_not_come_back_behind_a_new_end() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"o" * 3 * PAGE_BYTES)
    file = disk.open(LOG)
    file.truncate(PAGE_BYTES)
    file.write([b"n" * PAGE_BYTES * 3], PAGE_BYTES)
    for found in outcomes(disk, content(LOG)):
        assert isinstance(found, bytes)
        if found[PAGE_BYTES:].count(b"o"):
            assert found == b"o" * 3 * PAGE_BYTES
        else:
            assert found[:PAGE_BYTES] == b"o" * PAGE_BYTES


def test_a_lost_truncation_may_have_cleared_the_rest_of_its_page() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"o" * 2 * PAGE_BYTES)
    disk.open(LOG).truncate(10)
    whole, cleared = b"o" * 2 * PAGE_BYTES, b"o" * 10 + bytes(PAGE_BYTES - 10) + b"o" * PAGE_BYTES
    assert outcomes(disk, content(LOG)) == {whole, cleared, b"o" * 10}


def test_a_synced_truncation_stays() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"o" * 3 * PAGE_BYTES)
    file = disk.open(LOG)
    file.truncate(10)
    file.truncate(20)
    file.sync()
    assert outcomes(disk, content(LOG)) == {b"o" * 10 + bytes(10)}


def test_synced_contents_are_lost_with_their_unsynced_name() -> None:
    disk = a_disk()
    file = disk.open(LOG, create=True)
    file.write([b"content"], 0)
    file.sync()
    assert outcomes(disk, content(LOG)) == {None, b"content"}


def test_a_rename_is_atomic_and_lost_without_a_directory_sync() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"old")
    a_synced_file(disk, ROOT / "new", b"new")
    disk.rename(ROOT / "new", LOG)

    def both(disk: LossyDisk) -> object:
        return read_whole(disk, LOG), read_whole(disk, ROOT / "new")

    assert outcomes(disk, both) == {(b"old", b"new"), (b"new", None)}
    disk.sync_directory(ROOT)
    assert outcomes(disk, both) == {(b"new", None)}


def test_changes_of_names_survive_as_a_prefix() -> None:
    disk = a_disk()
    for name in ("a", "b", "c"):
        disk.open(ROOT / name, create=True)
    disk.remove(ROOT / "a")
    assert outcomes(disk, names) == {(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c")}


def test_a_removal_may_be_undone() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"content")
    disk.remove(LOG)
    assert outcomes(disk, content(LOG)) == {None, b"content"}


def test_a_rename_between_directories_happens_in_both_or_neither() -> None:
    disk = a_disk()
    disk.make_directory(ROOT / "d")
    a_synced_file(disk, LOG, b"content")
    disk.rename(LOG, ROOT / "d" / "log")

    def both(disk: LossyDisk) -> object:
        return read_whole(disk, LOG), read_whole(disk, ROOT / "d" / "log")

    assert outcomes(disk, both) == {(b"content", None), (None, b"content")}
    disk.sync_directory(ROOT / "d")
    assert outcomes(disk, both) == {(None, b"content")}


def test_syncing_one_side_of_a_rename_takes_along_what_came_before_on_the_other() -> None:
    disk = a_disk()
    disk.make_directory(ROOT / "d")
    a_synced_file(disk, LOG, b"content")
    disk.open(ROOT / "before", create=True)
    disk.rename(LOG, ROOT / "d" / "log")
    disk.open(ROOT / "later", create=True)
    disk.sync_directory(ROOT / "d")
    assert outcomes(disk, names) == {("before", "d"), ("before", "d", "later")}


def test_an_atomically_written_file_is_old_or_new_at_every_step() -> None:
    """The port's own way to replace a file, crashed at each of its steps."""
    for seed in range(60):
        for step in range(1, 100):
            disk = a_disk(seed)
            write_atomically(disk, LOG, b"old" * 2000)
            disk.process_crash()
            disk.crash_at_step(step)
            try:
                write_atomically(disk, LOG, b"new" * 2000)
            except PowerCut:
                assert read_whole(disk.power_cut(), LOG) in (b"old" * 2000, b"new" * 2000)
            else:
                assert read_whole(disk.power_cut(), LOG) == b"new" * 2000
                break


def test_after_a_failed_sync_a_later_one_succeeds_and_the_data_is_lost() -> None:
    lost = 0
    for seed in range(50):
        disk = a_disk(seed)
        a_synced_file(disk, LOG, b"old")
        file = disk.open(LOG)
        file.write([b"new"], 0)
        disk.fail_next_sync("*.txt")
        disk.fail_next_sync("log")
        with pytest.raises(StorageError, match="cannot sync"):
            file.sync()
        file.sync()
        lost += read_whole(disk.power_cut(), LOG) == b"old"
    assert 10 < lost < 40


def test_a_page_lost_by_a_failed_sync_is_saved_by_writing_it_again() -> None:
    for seed in range(50):
        disk = a_disk(seed)
        a_synced_file(disk, LOG, b"old old")
        file = disk.open(LOG)
        file.write([b"new"], 0)
        disk.fail_next_sync()
        with pytest.raises(StorageError):
            file.sync()
        shown = file.read(3, 0)
        file.write([b"new"], 4)
        file.sync()
        assert read_whole(disk.power_cut(), LOG) == shown + b" new"


def after_a_failed_sync(seed: int) -> LossyDisk | None:
    """A disk whose file shows new bytes that no sync will write; None if unlucky."""
    disk = a_disk(seed)
    a_synced_file(disk, LOG, b"old old")
    file = disk.open(LOG)
    file.write([b"new"], 0)
    disk.fail_next_sync()
    with pytest.raises(StorageError):
        file.sync()
    twin = disk.copy(random.Random(0))
    twin.open(LOG).sync()
    is_lost = read_whole(twin.power_cut(), LOG) == b"old old"
    return disk if is_lost and file.read(3, 0) == b"new" else None


def test_writing_to_a_lost_page_makes_all_of_it_dirty_again() -> None:
    saved = 0
    for disk in filter(None, map(after_a_failed_sync, range(60))):
        disk.open(LOG).write([b"!"], 4)
        assert outcomes(disk, content(LOG), seeds=30) == {b"old old", b"new !ld"}
        disk.fail_next_sync()
        with pytest.raises(StorageError):
            disk.open(LOG).sync()
        disk.open(LOG).sync()
        saved += read_whole(disk.power_cut(), LOG) == b"new !ld"
    assert saved > 0


def test_a_full_disk_takes_what_fits() -> None:
    disk = a_disk()
    file = disk.open(LOG, create=True)
    disk.fill(5)
    with pytest.raises(StorageError, match="No space left"):
        file.write([b"0123", b"4567"], 0)
    assert file.read(100, 0) == b"01234"
    file.write([b"98"], 3)
    assert disk.volume(ROOT).usable_bytes == 0
    file.truncate(2)
    file.write([b"345"], 2)
    disk.make_room()
    file.write([bytes(100)], 0)


def test_a_failing_write_leaves_a_beginning() -> None:
    disk = a_disk()
    file = disk.open(LOG, create=True)
    disk.fail_next_write()
    with pytest.raises(StorageError, match="cannot write"):
        file.write([b"0123456789"], 0)
    assert b"0123456789".startswith(file.read(100, 0))


def test_a_failing_read_fails_once() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"content")
    disk.fail_next_read("log")
    with pytest.raises(StorageError, match="cannot read"):
        read_whole(disk, LOG)
    assert read_whole(disk, LOG) == b"content"


def test_a_killed_process_may_leave_the_beginning_of_a_write() -> None:
    found = set()
    for seed in range(100):
        disk = a_disk(seed)
        file = disk.open(LOG, create=True)
        disk.crash_at_step(disk.step_count + 2)
        with pytest.raises(PowerCut):
            file.write([b"0123"], 0)
        disk.process_crash()
        found.add(read_whole(disk, LOG))
    assert found == {b"", b"0", b"01", b"012", b"0123"}


def test_after_a_crash_the_process_does_nothing_more() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"content")
    file = disk.open(LOG)

    def stop() -> None:
        raise PowerCut

    disk.on_step = stop
    with pytest.raises(PowerCut):
        file.truncate(0)
    disk.on_step = None
    with pytest.raises(PowerCut):
        disk.remove(LOG)
    file.close()
    disk.process_crash()
    assert read_whole(disk, LOG) == b"content"
    with pytest.raises(AssertionError):
        file.read(1, 0)


def test_a_truncation_under_a_live_view_is_noticed() -> None:
    disk = a_disk()
    a_synced_file(disk, LOG, b"content")
    file = disk.open(LOG)
    part = file.view()[2:]
    file.write([b"appended"], 7)
    with pytest.raises(AssertionError, match="live view"):
        file.truncate(0)
    part.release()
    file.truncate(0)


def test_there_is_no_descriptor_to_give_away() -> None:
    disk = a_disk()
    with pytest.raises(StorageError, match="no descriptor"):
        disk.open(LOG, create=True).fileno()


def test_a_broken_disk_fails_below_its_folder_until_it_is_repaired() -> None:
    disk = LossyDisk(random.Random(1))
    inside, outside = PurePath("/data/t-0"), PurePath("/more/t-0")
    for folder in (inside, outside):
        disk.make_directory(folder)
        disk.open(folder / "log", create=True).write([b"abc"], 0)
    disk.break_under(PurePath("/data"))
    disk.process_crash()
    assert disk.is_broken(PurePath("/data"))
    file = disk.open(inside / "log")
    for fails in (lambda: file.read(1, 0), lambda: file.write([b"d"], 3), file.sync):
        with pytest.raises(StorageError, match="Input/output error"):
            fails()
    assert disk.open(outside / "log").read(3, 0) == b"abc"
    disk.repair(PurePath("/data"))
    assert file.read(3, 0) == b"abc"
