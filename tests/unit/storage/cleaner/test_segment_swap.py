"""Swap of cleaned segments, and completion of an interrupted swap."""

import random
from dataclasses import replace
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import CleaningJob, CleaningResult, ReplacedSegment
from headwater.storage.cleaner.segment_swap import apply, finish_interrupted, still_valid
from headwater.storage.io.disk import read_whole
from tests.simulation.fakes.lossy_directory import Directory, NameJournal
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.simple_log import FOLDER, SimpleLog

Files = dict[str, bytes | None]


class LooseJournal(NameJournal):
    """Keeps any subset of the pending changes, not only the first ones.

    Only changes of the same name depend on each other. ext4 and XFS are stricter; a swap must not
    rely on it.
    """

    def cut(self, rng: random.Random) -> None:
        lost: set[tuple[Directory, str]] = set()
        chance = rng.random()
        kept = []
        for operation in self.pending:
            touched = {(directory, name) for directory, name, _ in operation.changes}
            if touched & lost or rng.random() >= chance:
                lost |= touched
            else:
                kept.append(operation)
        self.pending = kept
        for directory in {directory for each in kept for directory, _, _ in each.changes}:
            self.sync(directory)
        self.pending = []


class LooseDisk(LossyDisk):
    """Lossy disk that keeps no order among changes of different names."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._journal = LooseJournal()


def sketch(disk: LossyDisk) -> SimpleLog:
    """Six segments. No record of the third, the last of the first group, will be left."""
    log = SimpleLog(disk)
    log.append([(b"a", b"1"), (b"b", b"1")])
    log.append([(b"x", b"aborted")], producer_id=7, is_transactional=True)
    log.roll()
    log.append([(b"y", b"aborted")], producer_id=7, is_transactional=True)
    log.end_transaction(7, commit=False)
    log.append([(b"a", None)])
    log.roll()
    log.append([(b"b", b"2")])
    log.roll()
    log.append([(b"b", b"3"), (b"c", b"1")])
    log.roll()
    log.append([(b"b", b"4"), (b"c", b"2")])
    log.roll()
    log.append([(b"c", b"3")])
    log.sync()
    return log


def two_groups(log: SimpleLog) -> CleaningJob:
    job = log.job()
    return replace(job, segment_bytes=sum(source.size_bytes for source in job.sources[:3]))


def files(disk: LossyDisk) -> Files:
    return {name: read_whole(disk, FOLDER / name) for name in disk.names(FOLDER)}


def stages(disk: LossyDisk, result: CleaningResult) -> list[Files]:
    """Possible contents of the directory: none, one or all of the new segments in place."""
    found = []
    for count in range(len(result.groups) + 1):
        copy = disk.copy(random.Random(1))
        apply(copy, FOLDER, replace(result, groups=result.groups[:count]))
        finish_interrupted(copy, FOLDER)
        found.append(files(copy))
    return found


def test_new_segments_replace_old_ones_which_become_deleted_files() -> None:
    """CP-7, RT-5."""
    log = sketch(LossyDisk(random.Random(1)))
    before = [name for name in log.disk.names(FOLDER) if int(name[:20]) < 11]
    result = clean(log.disk, two_groups(log))
    assert [group.base_offset for group in result.groups] == [0, 7]
    doomed = apply(log.disk, FOLDER, result)
    assert sorted(doomed) == [FOLDER / (name + ".deleted") for name in sorted(before)]
    in_place = [name for name in log.disk.names(FOLDER) if not name.endswith(".deleted")]
    assert in_place == [
        f"{base:020d}{kind}"
        for base, kinds in (
            (0, (".index", ".log", ".timeindex", ".txnindex")),
            (7, (".index", ".log", ".timeindex")),
            (11, (".index", ".log", ".timeindex")),
        )
        for kind in kinds
    ]


def test_result_is_valid_only_for_the_segments_it_was_made_from() -> None:
    log = sketch(LossyDisk(random.Random(1)))
    job = two_groups(log)
    result = clean(log.disk, job)
    now = [
        ReplacedSegment(base_offset=source.base_offset, size_bytes=source.size_bytes)
        for source in job.sources
    ]
    assert still_valid(result, now, 1)
    assert still_valid(result, [*now, ReplacedSegment(base_offset=99, size_bytes=1)], 1)
    assert not still_valid(result, now, 2), "truncated meanwhile"
    assert not still_valid(result, now[1:], 1), "retention removed the first"
    assert not still_valid(result, now[:-1], 1), "the last became active again"
    grown = [*now[:-1], replace(now[-1], size_bytes=now[-1].size_bytes + 1)]
    assert not still_valid(result, grown, 1)


def crash_points(log: SimpleLog, job: CleaningJob) -> int:
    disk = log.disk
    assert isinstance(disk, LossyDisk)
    copy = disk.copy(random.Random(1))
    start = copy.step_count
    apply(copy, FOLDER, clean(copy, job))
    return copy.step_count - start


@pytest.mark.parametrize(
    ("seed", "disk_type", "is_power_cut"),
    [(0, LossyDisk, True), (1, LooseDisk, True), (2, LooseDisk, True), (3, LossyDisk, False)],
)
def test_crash_at_any_step_leaves_each_group_old_or_new(
    seed: int, disk_type: type[LossyDisk], is_power_cut: bool
) -> None:
    """CP-7, RC-2."""
    disk = disk_type(random.Random(seed))
    log = sketch(disk)
    job = two_groups(log)
    reference = disk.copy(random.Random(1))
    allowed = stages(reference, clean(reference, job))
    assert len({tuple(stage) for stage in allowed}) == 3
    reached = set()
    for step in range(1, crash_points(log, job) + 1):
        crashed = disk.copy(random.Random(f"{seed} {step}"))
        crashed.crash_at_step(step)
        with pytest.raises(PowerCut):
            apply(crashed, FOLDER, clean(crashed, job))
        if is_power_cut:
            crashed.power_cut()
        else:
            crashed.process_crash()
        reached |= recover_with_crashes(crashed, allowed, f"{seed} {step}")
    assert reached == {0, 1, 2}


def recover_with_crashes(crashed: LossyDisk, allowed: list[Files], label: str) -> set[int]:
    """Recover, and crash and recover again at each step of the recovery."""
    reached = set()
    whole = crashed.copy(random.Random(1))
    finish_interrupted(whole, FOLDER)
    reached.add(allowed.index(files(whole)))
    for step in range(1, whole.step_count + 1):
        again = crashed.copy(random.Random(f"{label} {step}"))
        again.crash_at_step(step)
        with pytest.raises(PowerCut):
            finish_interrupted(again, FOLDER)
        again.power_cut()
        finish_interrupted(again, FOLDER)
        reached.add(allowed.index(files(again)))
    return reached


def put(disk: LossyDisk, name: str, content: bytes = b"") -> None:
    file = disk.open(FOLDER / name, create=True)
    file.write([content], 0)
    file.close()


def test_swap_file_above_a_cleaned_file_is_dropped_and_one_below_is_completed() -> None:
    """RC-2: Kafka splits a segment into several, not all of which may be .swap files."""
    disk = LossyDisk(random.Random(1))
    sketch(disk)
    log_bytes = read_whole(disk, FOLDER / f"{0:020d}.log") or b""
    for name in disk.names(FOLDER):
        disk.remove(FOLDER / name)
    put(disk, f"{0:020d}.log.swap", log_bytes)
    put(disk, f"{5:020d}.log.cleaned")
    put(disk, f"{9:020d}.log.swap")
    put(disk, f"{9:020d}.index.swap")
    finish_interrupted(disk, FOLDER)
    assert disk.names(FOLDER) == [f"{0:020d}.log"]


def test_leftover_files_are_removed_and_everything_else_stays() -> None:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(FOLDER)
    for name in (
        f"{3:020d}.log",
        f"{3:020d}.index",
        f"{3:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ):
        put(disk, name)
    kept = disk.names(FOLDER)
    for name in (
        f"{1:020d}.log.deleted",
        f"{1:020d}.snapshot.deleted",
        f"{2:020d}.index",
        f"{2:020d}.txnindex",
    ):
        put(disk, name)
    finish_interrupted(disk, FOLDER)
    assert disk.names(FOLDER) == kept


def test_directory_without_interrupted_swap_is_not_touched() -> None:
    disk = LossyDisk(random.Random(1))
    sketch(disk)
    steps = disk.step_count
    finish_interrupted(disk, FOLDER)
    finish_interrupted(disk, PurePath("/logs/absent-0"))
    assert disk.step_count == steps


def test_corrupt_swap_file_is_reported_and_nothing_is_removed() -> None:
    disk = LossyDisk(random.Random(1))
    sketch(disk)
    put(disk, f"{0:020d}.log.swap", b"no batch at all" * 10)
    before = files(disk)
    with pytest.raises(StorageError, match="corrupt"):
        finish_interrupted(disk, FOLDER)
    assert files(disk) == before
