"""Short histories of a log, crashed at every single disk operation in several ways.

Each history runs up to its n-th operation, for all n, and stops there: by a power cut whose losses
are drawn a few times, and by a process crash. Then the broker restarts, is checked, continues,
shuts down cleanly and is checked again.
"""

from collections.abc import Callable

import pytest

from headwater.common.ids import TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.control_batches import ControlType, build_marker
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.fakes.batch_maker import placed
from tests.simulation.fakes.batches import Batch
from tests.simulation.fakes.lossy_disk import PowerCut
from tests.simulation.labs.log_lab import records
from tests.simulation.worlds.log_driver import LogDriver
from tests.simulation.worlds.log_model import Restart
from tests.simulation.worlds.storage_world import StorageWorld, Tracked

PARTITION = TopicPartition("orders", 0)
# Two batches fill a segment, and every batch gets an index entry.
SETTINGS = TopicSettings(
    segment_bytes=450,
    index_interval_bytes=1,
    retention_ms=10_000,
    file_delete_delay_ms=1_000,
)
POWER_CUTS = 3


class Scene:
    """One partition in one directory, with the operations of a history."""

    def __init__(self, crash_step: int) -> None:
        self.world = StorageWorld("scene", path_count=1)
        self._crash_step = crash_step
        self.world.disk.crash_at_step(crash_step)

    def begin(self) -> None:
        self.world.start()
        self.world.create(PARTITION, SETTINGS)

    def die(self, restart: Restart) -> None:
        """Crash within a history; the disk restarts its operation count, the history does not."""
        self._crash_step -= self.world.disk.step_count
        self.world.crash(restart)
        self.world.disk.crash_at_step(self._crash_step)
        self.world.start()

    @property
    def tracked(self) -> Tracked:
        return self.world.tracked[PARTITION]

    @property
    def driver(self) -> LogDriver:
        return LogDriver(self.world, self.tracked)

    def append(self, count: int = 1, *, producer: tuple[int, int] | None = None) -> None:
        for number in range(count):
            producer_id, sequence = producer or (-1, -1)
            content = build_batch(
                records(b"v" * 100, timestamp=self.world.now_ms + number),
                producer_id=producer_id,
                producer_epoch=0 if producer else -1,
                base_sequence=sequence,
                is_transactional=producer is not None,
            )
            self.driver.append(content)
        self.driver.log.raise_high_watermark(self.tracked.model.end)

    def follow(self, count: int) -> None:
        offset, run = self.tracked.model.end, list[Batch]()
        for _ in range(count):
            content = build_batch(records(b"f" * 90, timestamp=self.world.now_ms))
            content = placed(content, base_offset=offset, leader_epoch=self.tracked.leader_epoch)
            run.append(Batch.of(content))
            offset = run[-1].next
        self.driver.follow(run)

    def abort(self, producer_id: int) -> None:
        marker = build_marker(
            ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.world.now_ms,
        )
        self.driver.append(marker, AppendOrigin.COORDINATOR)

    def flush(self) -> None:
        self.driver.flush()
        self.world.executor.finish()

    def pass_time(self, milliseconds: int) -> None:
        self.world.now_ms += milliseconds
        driver = self.driver
        driver.expect_retention()
        self.world.directories.tick(self.world.now_ms)
        self.world.executor.finish()
        driver.note_retention()


def grows(scene: Scene) -> None:
    scene.append(3)
    scene.flush()
    scene.append(3)
    scene.follow(3)
    scene.world.executor.finish()
    scene.append(1)


def is_cut_and_goes_on(scene: Scene) -> None:
    scene.append(5)
    scene.flush()
    scene.world.directory_of(scene.tracked).save_recovery_points()
    scene.driver.truncate(3)
    scene.append(3)
    scene.driver.truncate(1)
    scene.append(2)
    scene.flush()


def loses_its_beginning(scene: Scene) -> None:
    scene.append(6)
    scene.flush()
    scene.driver.delete_records(3)
    scene.pass_time(300_000)
    scene.append(2)
    scene.pass_time(2_000)


def starts_over(scene: Scene) -> None:
    scene.append(3)
    scene.flush()
    scene.driver.delete_records(2)
    scene.world.directory_of(scene.tracked).save_log_starts()
    scene.driver.start_over(1)
    scene.append(2)
    scene.flush()


def stops_cleanly_and_goes_on(scene: Scene) -> None:
    scene.append(3)
    scene.world.executor.finish()
    scene.world.stop()
    scene.world.start()
    scene.append(2)
    scene.flush()


def recovers(scene: Scene) -> None:
    """Two crashes within the history, and then the one at every operation of the recovery."""
    scene.append(4)
    scene.die(Restart.PROCESS_CRASH)
    scene.append(2)
    scene.die(Restart.POWER_CUT)
    scene.append(1)


def aborts_transactions(scene: Scene) -> None:
    scene.append(1, producer=(7, 0))
    scene.append(1, producer=(8, 0))
    scene.abort(7)
    scene.append(1, producer=(7, 1))
    scene.flush()
    scene.abort(8)
    scene.driver.log.roll(scene.world.now_ms)
    scene.abort(7)
    scene.world.executor.finish()


def is_deleted_and_made_again(scene: Scene) -> None:
    scene.append(3)
    scene.flush()
    scene.driver.delete_records(2)
    scene.world.directory_of(scene.tracked).save_log_starts()
    scene.world.delete(scene.tracked)
    scene.world.create(PARTITION, SETTINGS)
    scene.append(1)
    scene.flush()


HISTORIES = (
    grows,
    is_cut_and_goes_on,
    loses_its_beginning,
    starts_over,
    stops_cleanly_and_goes_on,
    recovers,
    aborts_transactions,
    is_deleted_and_made_again,
)


def crashed_at(step: int, history: Callable[[Scene], None]) -> Scene | None:
    """Run a history up to a disk operation; None if it ended before."""
    scene = Scene(step)
    try:
        scene.begin()
        history(scene)
    except PowerCut:
        return scene
    return None


def judge(world: StorageWorld, restart: Restart) -> None:
    world.crash(restart)
    world.restart_until_up(lambda: restart)
    world.check_all()
    for tracked in world.tracked.values():
        tracked.leader_epoch = tracked.model.latest_epoch + 1
        LogDriver(world, tracked).append(build_batch(records(b"after", timestamp=world.now_ms)))
    world.stop()
    world.start()
    for tracked in world.tracked.values():
        world.log(tracked)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history.__name__))
def test_a_log_survives_a_crash_at_every_step_as_it(history: Callable[[Scene], None]) -> None:
    """RC-1 to RC-4"""
    step = 0
    while True:
        step += 1
        scene = crashed_at(step, history)
        if scene is None:
            break
        for outcome in range(POWER_CUTS):
            judge(scene.world.fork(f"{step} {outcome}"), Restart.POWER_CUT)
        judge(scene.world.fork(f"{step}"), Restart.PROCESS_CRASH)
    assert step > 50, "the history is too short to be one"
