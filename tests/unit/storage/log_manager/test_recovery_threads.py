"""Recovery of several logs at once, compared with recovery of one after the other."""

import random
import shutil
import threading
from pathlib import Path, PurePath

import pytest

from headwater.common.exceptions import StorageError, TooManyOpenFiles, WrongLogDirectory
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import MAGIC_POSITION
from headwater.storage.io.disk import Disk, File
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.log.segment_files import LOG, path_of
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.log_manager.recovery_pool import InlineRecovery, RecoveryPool
from headwater.storage.log_manager.recovery_threads import RecoveryThreads
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.log_lab import START_MS, records

DEADLINE_S = 60
SETTINGS = TopicSettings(segment_bytes=300, segment_index_bytes=1024)
INLINE = InlineRecovery()


class RecoveredBroker:
    """Broker on real files that starts again after a crash, with a given recovery pool."""

    def __init__(
        self, paths: list[Path], pool: RecoveryPool, *, disk: Disk | None = None, node_id: int = 1
    ) -> None:
        self.disk = OsDisk() if disk is None else disk
        self.files = OpenFiles(self.disk, 8)
        tools = DirectoryTools(
            node_id=node_id,
            cluster_id="here",
            disk=self.disk,
            files=self.files,
            executor=InlineExecutor(),
            rng=SeededRandom(random.Random(2)),
            settings_for=lambda _: SETTINGS,
            recovery=pool,
        )
        self.logs = LogManager(paths, tools, StorageSettings())

    def start(self) -> "RecoveredBroker":
        self.logs.open(START_MS)
        return self

    def log(self, number: int) -> UnifiedLog:
        log = self.logs.log(TopicPartition("orders", number), now_ms=START_MS)
        assert log is not None
        return log

    def append(self, log: UnifiedLog, text: bytes = b"v" * 60) -> None:
        batch = bytearray(build_batch(records(text, timestamp=START_MS)))
        log.append_as_leader(batch, leader_epoch=0, now_ms=START_MS)


def content(log: UnifiedLog) -> list[bytes]:
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        read = log.read(offset, max_bytes=1, bound=ReadBound.LOG_END)
        assert read.range is not None
        found.append(read.range.read())
        offset += 1
    return found


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Two directories with twenty logs after a crash; two logs are torn, one is unreadable."""
    paths = [tmp_path / "one", tmp_path / "two"]
    broker = RecoveredBroker(paths, INLINE).start()
    for number in range(20):
        log = broker.logs.create(
            TopicPartition("orders", number), TopicId(bytes(16)), now_ms=START_MS
        )
        for each in range(number):
            broker.append(log, b"%d-%d" % (number, each) * 10)
    for number in (7, 12):
        log = broker.log(number)
        torn = path_of(log.folder, log.local_log.segments.active.base_offset, LOG)
        torn_bytes = Path(torn).read_bytes()
        Path(torn).write_bytes(torn_bytes[:-5])
    old = path_of(broker.log(3).folder, 0, LOG)
    found = bytearray(Path(old).read_bytes())
    found[MAGIC_POSITION] = 1
    Path(old).write_bytes(found)
    broker.files.close()
    return paths


def state_of(broker: RecoveredBroker) -> dict[object, object]:
    directories = broker.logs.directories
    found: dict[object, object] = {
        partition: str(error)
        for directory in directories
        for partition, error in directory.unreadable_logs.items()
    }
    for log in broker.logs.opened():
        report = broker.logs.directory_of(log.partition).reports[log.partition]
        segments = [(each.base_offset, each.size) for each in log.local_log.segments]
        found[log.partition] = (content(log), segments, log.recovery_point, str(report))
    return found


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_logs_recovered_in_threads_equal_logs_recovered_one_by_one(
    paths: list[Path], tmp_path: Path, threads: int
) -> None:
    copies = [Path(shutil.copytree(each, tmp_path / f"copy-{each.name}")) for each in paths]
    expected = state_of(RecoveredBroker(copies, INLINE).start())
    broker = RecoveredBroker(paths, RecoveryThreads(threads)).start()
    renamed = {
        key: value.replace("copy-", "") if isinstance(value, str) else value
        for key, value in expected.items()
    }
    assert len(renamed) == 20
    assert state_of(broker) == renamed


def test_files_of_recovered_logs_belong_to_the_cache_of_the_broker(paths: list[Path]) -> None:
    broker = RecoveredBroker(paths, RecoveryThreads(2)).start()
    for log in broker.logs.opened():
        for _ in range(10):
            broker.append(log)
        assert len(content(log)) == log.end_offset
        assert 0 < broker.files.open_count <= 8
    broker.logs.close()
    again = RecoveredBroker(paths, RecoveryThreads(2)).start()
    assert again.log(19).end_offset == 29


class FailingDisk(OsDisk):
    """Disk on which opening some files fails."""

    def __init__(self, failing: str, error: Exception) -> None:
        super().__init__()
        self._failing = failing
        self._error = error
        self.failure_count = 0

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> File:  # type: ignore[override]
        on_worker = threading.current_thread() is not threading.main_thread()
        if self._failing in str(path) and on_worker:
            self.failure_count += 1
            raise self._error
        return super().open(path, create=create, is_kept=is_kept)


def test_disk_failure_takes_its_directory_offline_and_the_other_serves(paths: list[Path]) -> None:
    """RC-5"""
    disk = FailingDisk("one/orders-10", StorageError("broken"))
    broker = RecoveredBroker(paths, RecoveryThreads(2), disk=disk).start()
    one, two = broker.logs.directories
    assert one.failure is not None
    assert two.failure is None
    assert broker.log(19).end_offset == 19
    assert TopicPartition("orders", 10) not in broker.logs


def test_log_without_a_descriptor_is_loaded_with_the_cache_of_the_broker(
    paths: list[Path],
) -> None:
    disk = FailingDisk("orders-10", TooManyOpenFiles("no descriptor is left"))
    broker = RecoveredBroker(paths, RecoveryThreads(2), disk=disk).start()
    assert disk.failure_count > 0
    assert broker.log(10).end_offset == 10


def test_directory_of_another_broker_ends_the_loads_of_the_first(paths: list[Path]) -> None:
    meta = paths[1] / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(WrongLogDirectory):
        RecoveredBroker(paths, RecoveryThreads(2)).start()
    assert not any("headwater-recovery" in each.name for each in threading.enumerate())


def test_as_many_logs_are_loaded_at_once_as_there_are_threads() -> None:
    all_there = threading.Barrier(3)
    loads = RecoveryThreads(3).begin([lambda: all_there.wait(DEADLINE_S)] * 3)
    assert sorted(loads.take() for _ in range(3)) == [0, 1, 2]
    loads.close()
    at_once, most = [0], [0]
    lock = threading.Lock()

    def load() -> None:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        with lock:
            at_once[0] -= 1

    loads_alone = RecoveryThreads(1).begin([load] * 50)
    for _ in range(50):
        loads_alone.take()
    loads_alone.close()
    assert most == [1]


def test_loads_that_have_not_begun_are_dropped() -> None:
    begun, go_on = threading.Event(), threading.Event()
    loaded: list[str] = []

    def first() -> None:
        begun.set()
        go_on.wait(DEADLINE_S)
        loaded.append("first")

    loads = RecoveryThreads(1).begin([first, lambda: loaded.append("second")])
    begun.wait(DEADLINE_S)
    second = vars(loads)["_futures"][1]
    closing = threading.Thread(target=loads.close)
    closing.start()
    for _ in range(DEADLINE_S * 100):
        if second.cancelled():
            break
        closing.join(0.01)
    go_on.set()
    closing.join(DEADLINE_S)
    assert loaded == ["first"]
