"""Checkpoints written synchronously, or by a job that must not undo newer changes."""

import random
from pathlib import PurePath

from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicPartition
from headwater.storage.log_manager import checkpoints
from headwater.storage.log_manager.checkpoint_file import CheckpointFile
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk

FOLDER = PurePath("/data")
PATH = FOLDER / checkpoints.RECOVERY_POINTS
ORDERS = TopicPartition("orders", 0)


class Lab:
    """Checkpoint whose jobs run when the test says so."""

    def __init__(self) -> None:
        self.disk = LossyDisk(random.Random(1))
        self.disk.make_directory(FOLDER)
        self.disk.sync_directory(FOLDER.parent)
        self.executor = HeldExecutor(random.Random(1))
        self.failures: list[StorageError] = []
        self.checkpoint = CheckpointFile(
            self.disk, PATH, executor=self.executor, failed=self.failures.append
        )

    def set(self, offset: int) -> CheckpointFile:
        self.checkpoint.offsets[ORDERS] = offset
        return self.checkpoint

    def on_disk(self) -> int | None:
        return checkpoints.load_offsets(self.disk, PATH).get(ORDERS)


def test_background_save_is_on_disk_when_its_job_is_done() -> None:
    lab = Lab()
    lab.set(5).save()
    assert lab.set(9).save_later()
    assert lab.on_disk() == 5
    lab.executor.work()
    assert lab.on_disk() == 5
    lab.executor.deliver()
    assert lab.on_disk() == 9
    assert lab.disk.names(FOLDER) == [checkpoints.RECOVERY_POINTS]


def test_background_save_does_not_raise_an_offset_lowered_meanwhile() -> None:
    for jobs_before in (0, 1):
        lab = Lab()
        lab.set(9).save_later()
        for _ in range(jobs_before):
            lab.executor.work()
        lab.set(3).save()
        lab.executor.finish()
        assert lab.on_disk() == 3
        lab.disk.power_cut()
        assert lab.on_disk() == 3
        assert not lab.failures


def test_save_after_an_outdated_job_takes_effect() -> None:
    lab = Lab()
    lab.set(9).save_later()
    lab.set(3).save()
    lab.executor.finish()
    assert lab.set(4).save_later()
    lab.executor.finish()
    assert lab.on_disk() == 4


def test_one_background_save_at_a_time_writes_the_offsets_of_its_start() -> None:
    lab = Lab()
    assert lab.set(5).save_later()
    assert not lab.set(6).save_later()
    assert lab.checkpoint.is_saving
    lab.executor.finish()
    assert not lab.checkpoint.is_saving
    assert lab.on_disk() == 5


def test_full_executor_is_not_a_failure_and_can_be_retried() -> None:
    lab = Lab()
    lab.executor.is_full = True
    assert not lab.set(5).save_later()
    lab.executor.is_full = False
    assert lab.checkpoint.save_later()
    lab.executor.finish()
    assert (lab.on_disk(), lab.failures) == (5, [])


def test_disk_failure_in_the_job_is_reported() -> None:
    lab = Lab()
    lab.set(5).save_later()
    lab.disk.fail_next_sync()
    lab.executor.finish()
    assert len(lab.failures) == 1
    assert not lab.checkpoint.is_saving


def test_disk_failure_of_the_rename_is_reported() -> None:
    lab = Lab()
    lab.set(5).save_later()
    lab.executor.work()
    lab.disk.remove_tree(FOLDER)
    lab.executor.deliver()
    assert len(lab.failures) == 1
