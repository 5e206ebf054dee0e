"""The simulated lossy disk behaves like a real one, and loses only what it may."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import StorageError
from headwater.storage.io.disk import Disk
from headwater.storage.io.os_disk import OsDisk
from tests.simulation.fakes.lossy_disk import LossyDisk

KINDS = [
    *("create", "write", "read", "truncate", "sync", "status", "set modified"),
    *("names", "make directory", "rename", "remove", "remove tree", "sync directory"),
]
NAMES = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Operation on a disk, below some root."""

    kind: str
    name: str
    other_name: str
    position: int
    chunks: list[bytes]


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(KINDS),
        name=st.sampled_from(NAMES),
        other_name=st.sampled_from(NAMES),
        position=st.sampled_from([0, 1, 511, 4095, 4096, 5000, 9000]),
        chunks=st.lists(st.sampled_from([b"", b"x", b"yz" * 300, b"w" * 5000]), max_size=3),
    ),
    max_size=25,
)


def outcome(step: Step, disk: Disk, root: PurePath) -> object:
    """Return what a caller sees of one operation."""
    try:
        if step.kind in ("create", "write", "read", "truncate", "sync"):
            return file_outcome(step, disk, root / step.name)
        return name_outcome(step, disk, root / step.name, root / step.other_name)
    except StorageError:
        return StorageError


def file_outcome(step: Step, disk: Disk, path: PurePath) -> object:
    file = disk.open(path, create=step.kind == "create")
    try:
        match step.kind:
            case "write":
                file.write(step.chunks, step.position)
            case "truncate":
                file.truncate(step.position)
            case "sync":
                file.sync()
        return file.read(2000, step.position), file.size(), bytes(file.view())
    finally:
        file.close()


def name_outcome(step: Step, disk: Disk, path: PurePath, other: PurePath) -> object:
    match step.kind:
        case "names":
            return disk.names(path)
        case "make directory":
            disk.make_directory(path)
        case "rename":
            disk.rename(path, other)
        case "remove":
            disk.remove(path)
        case "remove tree":
            disk.remove_tree(path)
        case "sync directory":
            disk.sync_directory(path)
        case "set modified":
            if disk.status(path) is not None:
                disk.set_modified(path, step.position)
                return disk.status(path)
    status = disk.status(path)
    return None if status is None else status.size


def tree(disk: Disk, directory: PurePath) -> dict[str, object]:
    """Return everything below a directory: contents of files, trees of directories."""
    found: dict[str, object] = {}
    for name in disk.names(directory):
        path = directory / name
        if disk.status(path) is None:
            found[name] = tree(disk, path)
        else:
            file = disk.open(path)
            found[name] = file.read(file.size(), 0)
            file.close()
    return found


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans())
def test_without_a_crash_it_behaves_like_the_real_disk(steps: list[Step], crash: bool) -> None:
    cruel, root = LossyDisk(random.Random(0)), PurePath("/")
    with tempfile.TemporaryDirectory() as real_root:
        for step in steps:
            seen = outcome(step, cruel, root)
            assert seen == outcome(step, OsDisk(), Path(real_root)), step
            if crash:
                # A crashed process leaves all it wrote.
                cruel.process_crash()
        assert tree(cruel, root) == tree(OsDisk(), Path(real_root))


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_synced_data_survives_a_power_cut(steps: list[Step], seed: int) -> None:
    disk, root = LossyDisk(random.Random(seed)), PurePath("/")
    for step in steps:
        outcome(step, disk, root)
    sync_all(disk, root)
    before = tree(disk, root)
    disk.power_cut()
    assert tree(disk, root) == before


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_power_cut_depends_only_on_the_seed(steps: list[Step], seed: int) -> None:
    disk, root = LossyDisk(random.Random(0)), PurePath("/")
    for step in steps:
        outcome(step, disk, root)
    first, second = disk.copy(random.Random(seed)), disk.copy(random.Random(seed))
    assert tree(first, root) == tree(disk, root)
    assert tree(first.power_cut(), root) == tree(second.power_cut(), root)
    after = tree(first, root)
    assert tree(first.power_cut(), root) == after, "what a cut left is durable"


def sync_all(disk: Disk, directory: PurePath) -> None:
    for name in disk.names(directory):
        path = directory / name
        if disk.status(path) is None:
            sync_all(disk, path)
        else:
            file = disk.open(path)
            file.sync()
            file.close()
    disk.sync_directory(directory)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 6000), max_size=8),
    st.lists(st.integers(1, 6000), max_size=8),
    st.integers(0, 2**32),
)
def test_appends_after_a_sync_never_touch_synced_data(
    synced: list[int], unsynced: list[int], seed: int
) -> None:
    disk, path = LossyDisk(random.Random(seed)), PurePath("/log")
    file = disk.open(path, create=True)
    disk.sync_directory(path.parent)
    for count in synced:
        file.write([b"s" * count], file.size())
    file.sync()
    for count in unsynced:
        file.write([b"u" * count], file.size())
    end = file.size()
    disk.power_cut()
    content = disk.open(path).read(end + 1, 0)
    assert content[: sum(synced)] == b"s" * sum(synced)
    assert sum(synced) <= len(content) <= end
    assert not content[sum(synced) :].strip(b"u\0")
