"""LogManager: placement, restarts, disk failures and background work."""

import dataclasses
import random
import zlib
from pathlib import PurePath

import pytest

from headwater.common.exceptions import StorageError, UnreadableLog, WrongLogDirectory
from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import MAGIC_POSITION
from headwater.records.control_batches import ControlType, build_marker
from headwater.storage.io.disk import read_whole
from headwater.storage.io.executor import Executor, InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log.unified_log import ReadBound, UnifiedLog
from headwater.storage.log_manager import checkpoints, clean_shutdown_file
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.log_lab import START_MS, records

ONE, TWO = PurePath("/one"), PurePath("/two")
TOPIC_ID = TopicId(bytes(range(16)))
SMALL = TopicSettings(segment_bytes=300, file_delete_delay_ms=1000, retention_ms=10_000)


class Broker:
    """Process with two log directories that can be restarted on the same disk."""

    def __init__(self, *paths: PurePath) -> None:
        self.disk = LossyDisk(random.Random(1))
        self.paths = paths or (ONE, TWO)
        self.now_ms = START_MS
        self.settings = SMALL
        self.executor: Executor = InlineExecutor()
        self.start()

    def start(self, *, node_id: int = 1, cluster_id: str = "here") -> None:
        self.tools = DirectoryTools(
            node_id=node_id,
            cluster_id=cluster_id,
            disk=self.disk,
            files=OpenFiles(self.disk, 32),
            executor=self.executor,
            rng=SeededRandom(random.Random(2)),
            settings_for=lambda _: self.settings,
        )
        self.logs = LogManager(self.paths, self.tools, StorageSettings())
        self.logs.open(self.now_ms)

    def stop(self) -> None:
        self.logs.close()
        self.disk.process_crash()

    def crash(self) -> None:
        self.disk.process_crash()
        self.start()

    def create(self, topic: str, partition: int = 0) -> UnifiedLog:
        place = TopicPartition(topic, partition)
        return self.logs.create(place, TOPIC_ID, now_ms=self.now_ms)

    def log(self, topic: str, partition: int = 0) -> UnifiedLog:
        log = self.logs.log(TopicPartition(topic, partition), now_ms=self.now_ms)
        assert log is not None
        return log

    def append(self, log: UnifiedLog, count: int = 1) -> None:
        for _ in range(count):
            batch = bytearray(build_batch(records(b"v" * 60, timestamp=self.now_ms)))
            log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms)
            log.raise_high_watermark(log.end_offset)

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.logs.tick(self.now_ms)


def remove_segment(broker: Broker, log: UnifiedLog, base_offset: int) -> None:
    for kind in ("log", "index", "timeindex"):
        broker.disk.remove(log.folder / f"{base_offset:020d}.{kind}")


def test_new_partition_is_created_in_the_directory_with_the_fewest() -> None:
    broker = Broker()
    for partition in range(6):
        broker.create("orders", partition)
    assert [len(directory) for directory in broker.logs.directories] == [3, 3]
    names = broker.disk.names(ONE) + broker.disk.names(TWO)
    assert sorted(name for name in names if "-" in name and "point" not in name) == [
        f"orders-{partition}" for partition in range(6)
    ]


def test_logs_open_on_first_use_after_a_clean_shutdown() -> None:
    broker = Broker()
    broker.append(broker.create("orders"), 5)
    broker.append(broker.create("parcels"), 2)
    broker.stop()
    broker.start()
    assert list(broker.logs.opened()) == []
    assert broker.log("orders").end_offset == 5
    assert [log.partition.topic for log in broker.logs.opened()] == ["orders"]
    broker.pass_time(1)
    assert len(list(broker.logs.opened())) == 2


def test_broker_epoch_is_claimed_only_after_a_clean_shutdown_of_all_directories() -> None:
    """KIP-966: else a controller would elect a replica that has lost records."""
    broker = Broker()
    assert broker.logs.clean_broker_epoch() is None
    broker.logs.close(broker_epoch=7)
    broker.start()
    assert broker.logs.clean_broker_epoch() == 7
    broker.crash()
    assert broker.logs.clean_broker_epoch() is None
    broker.logs.close(broker_epoch=8)
    clean_shutdown_file.save(broker.disk, TWO, 7)
    broker.start()
    assert broker.logs.clean_broker_epoch() is None


def test_a_process_that_never_registered_keeps_the_proof_of_the_one_before_it() -> None:
    broker = Broker()
    broker.logs.close(broker_epoch=7)
    broker.start()
    broker.logs.close(broker_epoch=-1)
    broker.start()
    assert broker.logs.clean_broker_epoch() == 7
    broker.crash()
    broker.logs.close(broker_epoch=-1)
    broker.start()
    assert broker.logs.clean_broker_epoch() in (None, -1)


def test_crash_recovers_every_log_and_keeps_high_watermarks() -> None:
    """HW-9, RC-1"""
    broker = Broker()
    broker.append(broker.create("orders"), 5)
    broker.pass_time(5000)
    broker.append(broker.log("orders"), 2)
    broker.crash()
    log = broker.log("orders")
    assert log.end_offset == 7
    assert log.high_watermark == 5
    reports = [report for each in broker.logs.directories for report in each.reports.values()]
    assert sum(report.recovered_segments for report in reports) > 0


def test_flushed_segment_is_not_checked_again_after_a_kill() -> None:
    """RC-1. The next regular checkpoint of the recovery points would be a minute away."""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 9)
    assert len(log.local_log.segments) > 3
    broker.pass_time(100)
    broker.crash()
    report = broker.logs.directories[0].reports[log.partition]
    assert (report.recovered_segments, broker.log("orders").end_offset) == (1, 9)


def test_logs_that_roll_often_share_checkpoint_writes() -> None:
    broker = Broker(ONE)
    jobs = broker.executor = HeldExecutor(random.Random(1))
    broker.start()
    log = broker.create("orders")
    for _ in range(20):
        broker.append(log, 3)
        jobs.finish()
        broker.pass_time(10)
    assert jobs.waiting_count == 0
    broker.pass_time(1_000)
    assert jobs.waiting_count == 1


def test_checkpoint_entries_of_unopened_logs_are_kept() -> None:
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 5)
    broker.log("orders").delete_records_below(4)
    broker.create("parcels")
    broker.stop()
    broker.start()
    broker.log("parcels")
    broker.logs.directories[0].save_log_starts()
    broker.logs.directories[0].save_recovery_points()
    broker.crash()
    log = broker.log("orders")
    assert (log.log_start_offset, log.end_offset) == (4, 5)


def test_recreated_partition_inherits_nothing() -> None:
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 9)
    log.delete_records_below(9)
    broker.logs.directories[0].save_log_starts()
    log.flush()
    broker.logs.directories[0].save_recovery_points()
    broker.logs.delete(TopicPartition("orders", 0), now_ms=broker.now_ms)
    assert TopicPartition("orders", 0) not in broker.logs
    broker.append(broker.create("orders"), 2)
    broker.crash()
    again = broker.log("orders")
    assert (again.log_start_offset, again.end_offset) == (0, 2)


def test_recreated_partition_inherits_no_high_watermark() -> None:
    """HW-9. Consumers could see records that other replicas may not have."""
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 9)
    broker.pass_time(5_000)
    broker.logs.delete(TopicPartition("orders", 0), now_ms=broker.now_ms)
    again = broker.create("orders")
    batch = bytearray(build_batch(records(b"v", timestamp=broker.now_ms)))
    again.append_as_leader(batch, leader_epoch=0, now_ms=broker.now_ms)
    broker.crash()
    assert (broker.log("orders").high_watermark, broker.log("orders").end_offset) == (0, 1)


def test_deleted_directory_is_removed_after_its_delay_or_at_the_next_start() -> None:
    """TO-4"""
    broker = Broker(ONE)
    broker.create("orders")
    broker.create("parcels")
    for topic in ("orders", "parcels"):
        broker.logs.delete(TopicPartition(topic, 0), now_ms=broker.now_ms)
    doomed = [name for name in broker.disk.names(ONE) if name.endswith("-delete")]
    assert len(doomed) == 2
    broker.pass_time(999)
    assert [name for name in broker.disk.names(ONE) if name.endswith("-delete")] == doomed
    broker.pass_time(1)
    assert [name for name in broker.disk.names(ONE) if name.endswith("-delete")] == []


def test_failed_directory_goes_offline_and_the_other_serves() -> None:
    """RC-5"""
    broker = Broker()
    failing, healthy = broker.create("orders"), broker.create("parcels")
    broker.append(failing, 2)
    broker.disk.fail_next_write("/one/orders-0/*.log")
    with pytest.raises(StorageError):
        broker.append(failing)
    with pytest.raises(StorageError):
        broker.append(failing)
    with pytest.raises(StorageError):
        broker.log("orders")
    with pytest.raises(StorageError):
        failing.read(0, max_bytes=1, bound=ReadBound.LOG_END)
    broker.append(healthy, 2)
    assert broker.create("others").folder.parent == TWO
    broker.pass_time(10**9)
    broker.logs.close()
    assert broker.disk.status(ONE / ".kafka_cleanshutdown") is None
    assert broker.disk.status(TWO / ".kafka_cleanshutdown") is not None


def test_directory_that_fails_during_log_creation_leaves_no_second_folder() -> None:
    """Kafka does not start on two folders of one partition."""
    broker = Broker()
    broker.disk.fail_next_write("*partition.metadata")
    with pytest.raises(StorageError):
        broker.create("orders")
    failed = broker.logs.directory_of(TopicPartition("orders", 0))
    assert failed.failure is not None
    with pytest.raises(StorageError):
        broker.logs.log(TopicPartition("orders", 0), now_ms=broker.now_ms)
    broker.crash()
    folders = [name for path in (ONE, TWO) for name in broker.disk.names(path)]
    assert folders.count("orders-0") == 1
    assert broker.log("orders").end_offset == 0


def test_failed_fsync_takes_the_directory_offline() -> None:
    """RC-5: the kernel may have dropped the pages, so a retry proves nothing."""
    broker = Broker()
    log = broker.create("orders")
    broker.append(log)
    broker.disk.fail_next_sync("/one/orders-0/*.log")
    answered: list[StorageError | None] = []
    log.flush(answered.append)
    assert [type(answer) for answer in answered] == [StorageError]
    log.flush(answered.append)
    assert answered[1:] == [log.failure]
    with pytest.raises(StorageError):
        broker.append(log)


def test_flush_callback_is_called_once_even_if_the_log_is_deleted() -> None:
    broker = Broker(ONE)
    jobs = broker.executor = HeldExecutor(random.Random(1))
    broker.start()
    log = broker.create("orders")
    broker.append(log)
    answered: list[StorageError | None] = []
    log.flush(answered.append)
    log.flush(answered.append)
    broker.logs.delete(log.partition, now_ms=broker.now_ms)
    assert [type(answer) for answer in answered] == [StorageError], "the one that had not begun"
    jobs.finish()
    assert len(answered) == 2


def test_error_if_all_directories_fail() -> None:
    """RC-5"""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.disk.fail_next_write("*.log")
    with pytest.raises(StorageError):
        broker.append(log)
    with pytest.raises(StorageError, match="all log directories have failed"):
        broker.create("parcels")


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "here"), (1, "elsewhere")])
def test_directory_of_another_broker_is_rejected(node_id: int, cluster_id: str) -> None:
    broker = Broker()
    broker.stop()
    with pytest.raises(WrongLogDirectory):
        broker.start(node_id=node_id, cluster_id=cluster_id)


def test_a_directory_keeps_its_id() -> None:
    broker = Broker()
    ids = [directory.directory_id for directory in broker.logs.directories]
    broker.stop()
    broker.start()
    assert [directory.directory_id for directory in broker.logs.directories] == ids
    assert ids[0] != ids[1]


def test_one_unreadable_log_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """formats 4: a segment in an old message format is rejected and left unchanged."""
    broker = Broker(ONE)
    broker.create("orders")
    broker.append(broker.create("parcels"), 3)
    message = b"\x01\x00" + bytes(8) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01v"
    entry = bytes(8) + (len(message) + 4).to_bytes(4, "big")
    entry += zlib.crc32(message).to_bytes(4, "big") + message
    broker.disk.open(ONE / "orders-0" / "00000000000000000000.log").write([entry], 0)
    broker.crash()
    for _ in range(2):
        with pytest.raises(UnreadableLog, match="message format 1"):
            broker.log("orders")
    assert broker.log("parcels").end_offset == 3
    broker.pass_time(300_000)
    assert TopicPartition("orders", 0) in broker.logs
    (found,) = warnings(caplog)
    assert found.startswith("Cannot open log: directory=/one/orders-0 error=")


def test_raft_metadata_log_is_ignored() -> None:
    """Kafka 4 keeps its metadata log in the same directory, and it must not be truncated."""
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 2)
    folder = ONE / "__cluster_metadata-0"
    broker.disk.make_directory(folder)
    segment = folder / "00000000000000000000.log"
    broker.disk.open(segment, create=True).write([b"not for us"], 0)
    broker.crash()
    broker.pass_time(1)
    broker.stop()
    assert broker.logs.partitions() == [TopicPartition("orders", 0)]
    assert broker.disk.names(folder) == [segment.name]
    assert read_whole(broker.disk, segment) == b"not for us"


@pytest.mark.parametrize("checkpoint", ["missing", "damaged"])
def test_gaps_left_by_compaction_are_kept_without_recovery_points(
    checkpoint: str,
) -> None:
    """Kafka's compaction leaves such gaps."""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 12)
    bases = [segment.base_offset for segment in log.local_log.segments]
    remove_segment(broker, log, bases[1])
    if checkpoint == "missing":
        broker.disk.remove(ONE / "recovery-point-offset-checkpoint")
    else:
        broker.disk.open(ONE / "recovery-point-offset-checkpoint").write([b"?"], 0)
    broker.crash()
    found = [segment.base_offset for segment in broker.log("orders").local_log.segments]
    assert found == [bases[0], *bases[2:]]
    remove_segment(broker, log, bases[3])
    broker.disk.open(ONE / "recovery-point-offset-checkpoint").truncate(0)
    broker.crash()
    assert broker.log("orders").end_offset == bases[1]


def test_gaps_in_the_compacted_part_survive_a_crash() -> None:
    """Kafka's cleaner leaves them between segments that its recovery point does not cover yet."""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 18)
    bases = [segment.base_offset for segment in log.local_log.segments]
    log.first_dirty_offset = bases[3]
    broker.logs.directory_of(log.partition).save_cleaner_offsets()
    remove_segment(broker, log, bases[2])
    broker.crash()
    log = broker.log("orders")
    assert [segment.base_offset for segment in log.local_log.segments] == bases[:2] + bases[3:]
    assert log.end_offset == 18
    assert log.first_dirty_offset == bases[3]
    remove_segment(broker, log, bases[4])
    broker.disk.open(ONE / "recovery-point-offset-checkpoint").truncate(0)
    broker.crash()
    log = broker.log("orders")
    assert log.end_offset == bases[4], "a gap above the compacted part means a loss"
    assert log.first_dirty_offset == bases[3]


def test_epochs_of_compacted_records_keep_their_start_offset_after_a_crash() -> None:
    """EP-3: otherwise a follower would be told that the previous epoch went on for longer."""
    broker = Broker(ONE)
    log = broker.create("orders")
    for epoch in (0, 1, 4, 5):
        log.begin_epoch(epoch)
        for _ in range(3):
            batch = bytearray(build_batch(records(b"v" * 60, timestamp=START_MS)))
            log.append_as_leader(batch, leader_epoch=epoch, now_ms=START_MS)
        log.roll(START_MS)
    before = log.epochs.entries()
    assert [entry.start_offset for entry in before] == [0, 3, 6, 9]
    log.first_dirty_offset = 9
    broker.logs.directory_of(log.partition).save_cleaner_offsets()
    for segment in log.local_log.segments:
        if 3 <= segment.base_offset < 9:
            remove_segment(broker, log, segment.base_offset)
    broker.crash()
    assert broker.log("orders").epochs.entries() == before


def test_truncation_below_the_compacted_part_is_checkpointed_first() -> None:
    """Otherwise the next start could attribute a loss by a power cut to compaction."""
    broker = Broker(ONE)
    log = broker.create("orders")
    path = ONE / "cleaner-offset-checkpoint"
    for cut, noted in ((7, {log.partition: 7}), (9, {log.partition: 7}), (5, {log.partition: 5})):
        broker.append(log, 10 - log.end_offset)
        log.first_dirty_offset = log.first_dirty_offset or 8
        log.truncate_to(cut, now_ms=START_MS)
        assert checkpoints.load_offsets(broker.disk, path) == noted
    log.start_over(20, now_ms=START_MS)
    assert checkpoints.load_offsets(broker.disk, path) == {}


def test_torn_transaction_index_is_rebuilt() -> None:
    """RC-1"""
    broker = Broker(ONE)
    log = broker.create("orders")
    for producer_id in (1, 2, 3):
        batch = build_batch(
            records(b"v" * 60, timestamp=START_MS),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=START_MS)
        marker = build_marker(
            ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=START_MS,
        )
        log.append_as_leader(
            bytearray(marker),
            leader_epoch=0,
            now_ms=START_MS,
            origin=AppendOrigin.COORDINATOR,
        )
    broker.stop()
    folder = ONE / "orders-0"
    names = [name for name in broker.disk.names(folder) if name.endswith(".txnindex")]
    before = [read_whole(broker.disk, folder / name) for name in names]
    broker.disk.open(folder / names[0]).truncate(20)
    broker.start()
    broker.log("orders")
    assert [read_whole(broker.disk, folder / name) for name in names] == before


def test_corrupt_checkpoints_cost_a_recovery_and_no_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 5)
    broker.stop()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        broker.disk.open(ONE / name).write([b"not a checkpoint"], 0)
    broker.start()
    assert broker.log("orders").end_offset == 5
    found = warnings(caplog)
    assert [each.partition(" error=")[0] for each in found] == [
        f"Ignoring corrupt checkpoint: file={ONE}/{name}-offset-checkpoint"
        for name in ("recovery-point", "replication")
    ]


# What recovery finds is logged, for operators.


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_crash_without_damage_is_not_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headwater.storage")
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 5)
    assert caplog.messages == []
    broker.crash()
    assert caplog.messages == [
        f"Recovering logs after an unclean shutdown: directory={ONE} partitions=1"
    ]
    caplog.clear()
    broker.stop()
    broker.start()
    broker.log("orders")
    assert caplog.messages == []


def test_truncated_log_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 2)
    segment = log.local_log.segments.active
    segment.log.file().truncate(segment.size - 3)
    broker.crash()
    (found,) = warnings(caplog)
    assert found.startswith(
        "Truncated or repaired damaged log: directory=/one/orders-0 end_offset=1 cut_bytes="
    )
    assert " dropped_segments=0 rebuilt_indexes=0 reason=00000000000000000000.log at " in found
    caplog.clear()
    broker.crash()
    assert warnings(caplog) == []


def test_rebuilt_index_is_a_warning_when_its_log_is_used(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 5)
    broker.stop()
    broker.disk.remove(ONE / "orders-0" / "00000000000000000000.index")
    broker.start()
    assert warnings(caplog) == []
    broker.log("orders")
    assert warnings(caplog) == [
        "Rebuilt missing or corrupt indexes: directory=/one/orders-0 rebuilt_indexes=1"
    ]


def test_corrupt_epochs_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(ONE)
    broker.append(broker.create("orders"), 2)
    broker.stop()
    broker.disk.open(ONE / "orders-0" / "leader-epoch-checkpoint").write([b"junk"], 0)
    broker.start()
    broker.log("orders")
    (found,) = warnings(caplog)
    assert found.startswith("Truncated or repaired damaged log: directory=/one/orders-0 ")
    assert "cut_bytes=0" in found
    assert "leader-epoch-checkpoint" in found


def test_retention_runs_in_the_background() -> None:
    """RT-2, RT-5"""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 8)
    broker.pass_time(300_000)
    assert log.log_start_offset == 8
    folder = ONE / "orders-0"
    assert any(name.endswith(".deleted") for name in broker.disk.names(folder))
    broker.pass_time(1000)
    assert not any(name.endswith(".deleted") for name in broker.disk.names(folder))


def test_idle_producers_expire_in_the_background() -> None:
    """IDP-8"""
    broker = Broker(ONE)
    log = broker.create("orders")
    batch = build_batch(
        records(b"v", timestamp=START_MS), producer_id=7, producer_epoch=0, base_sequence=0
    )
    log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=broker.now_ms)
    broker.pass_time(600_000)
    assert len(log.producers) == 1
    broker.pass_time(86_400_000)
    assert len(log.producers) == 0


def test_flush_by_time_needs_its_scheduler() -> None:
    broker = Broker(ONE)
    broker.settings = dataclasses.replace(SMALL, flush_ms=10)
    broker.logs = LogManager(
        [PurePath("/three")], broker.tools, StorageSettings(log_flush_scheduler_interval_ms=5)
    )
    broker.logs.open(broker.now_ms)
    log = broker.create("orders")
    broker.append(log)
    broker.pass_time(5)
    assert log.recovery_point == 0
    broker.pass_time(10)
    assert log.recovery_point == 1


def test_background_work_continues_past_a_corrupt_log(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(ONE)
    for topic in ("orders", "parcels"):
        broker.append(broker.create(topic), 8)
    broker.stop()
    broker.disk.open(ONE / "orders-0" / "00000000000000000000.log").write([b"\7"], MAGIC_POSITION)
    broker.start()
    broker.pass_time(1)
    broker.pass_time(300_000)
    assert broker.log("parcels").log_start_offset == 8
    assert list(broker.logs.corrupt) == [TopicPartition("orders", 0)]
    broker.pass_time(300_000)
    (found,) = warnings(caplog)
    assert found.startswith("Found corrupt batch: partition=orders-0 error=")
    assert broker.logs.directories[0].failure is None


def test_work_refused_by_a_full_executor_is_done_later() -> None:
    """RT-5, HW-9"""
    broker = Broker(ONE)
    broker.executor = executor = HeldExecutor(random.Random(1))
    broker.start()
    log = broker.create("orders")
    broker.append(log, 8)
    executor.finish()
    broker.pass_time(300_000)
    executor.finish()
    executor.is_full = True
    broker.append(log, 1)
    broker.pass_time(5_000)
    executor.is_full = False
    broker.pass_time(5_000)
    executor.finish()
    folder = ONE / "orders-0"
    assert not any(name.endswith(".deleted") for name in broker.disk.names(folder))
    assert read_whole(broker.disk, ONE / "replication-offset-checkpoint") == b"0\n1\norders 0 9\n"


def test_new_partition_is_durable_with_its_first_flush() -> None:
    broker = Broker(ONE)
    before = broker.disk.sync_count
    broker.create("orders")
    assert broker.disk.sync_count == before
    broker.disk.process_crash()
    broker.start()
    log = broker.log("orders")
    broker.append(log, 2)
    flushed: list[StorageError | None] = []
    log.flush(flushed.append)
    broker.disk.power_cut()
    broker.start()
    assert flushed == [None]
    assert broker.log("orders").end_offset == 2
    assert broker.logs.directories[0].topic_id(TopicPartition("orders", 0)) == TOPIC_ID


@pytest.mark.parametrize("content", [None, b"", bytes(45), b"version: 0\ntopic"])
def test_directory_that_lost_its_topic_id_in_a_power_cut_is_adopted(
    content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(ONE)
    partition = TopicPartition("orders", 0)
    broker.append(broker.create("orders"), 2)
    path = ONE / "orders-0" / "partition.metadata"
    broker.disk.remove(path)
    if content is not None:
        broker.disk.open(path, create=True).write([content], 0)
    broker.crash()
    directory = broker.logs.directory_of(partition)
    assert broker.log("orders").end_offset == 2
    assert directory.topic_id(partition) is None
    found = [each.partition(" error=")[0] for each in warnings(caplog)]
    expected = "Cannot read partition.metadata: partition=orders-0"
    assert found == ([] if content is None else [expected])
    directory.adopt(partition, TOPIC_ID)
    assert directory.topic_id(partition) == TOPIC_ID


def test_recreated_partition_inherits_nothing_from_one_lost_in_a_power_cut() -> None:
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.append(log, 9)
    log.delete_records_below(8)
    broker.logs.directories[0].save_log_starts()
    broker.disk.remove_tree(ONE / "orders-0")
    broker.crash()
    assert TopicPartition("orders", 0) not in broker.logs
    broker.append(broker.create("orders"), 2)
    broker.crash()
    again = broker.log("orders")
    assert (again.log_start_offset, again.end_offset) == (0, 2)


def test_many_partitions_are_deleted_with_few_syncs() -> None:
    """TO-4"""
    broker = Broker(ONE)
    for partition in range(50):
        broker.append(broker.create("orders", partition))
    broker.logs.directories[0].save_recovery_points()
    before = broker.disk.sync_count
    broker.logs.delete_all(
        [TopicPartition("orders", partition) for partition in range(1, 50)], now_ms=broker.now_ms
    )
    assert broker.disk.sync_count - before <= 3
    assert broker.logs.partitions() == [TopicPartition("orders", 0)]
    broker.disk.power_cut()
    broker.start()
    assert [each for each in broker.logs.partitions() if each.partition > 0] == []


def test_failed_directory_keeps_its_partitions_while_others_are_deleted() -> None:
    """RC-5"""
    broker = Broker()
    failing, healthy = broker.create("orders"), broker.create("parcels")
    broker.logs.directory_of(failing.partition).fence(StorageError("no disk"))
    with pytest.raises(StorageError, match="no disk"):
        broker.logs.delete_all([failing.partition, healthy.partition], now_ms=broker.now_ms)
    assert broker.logs.partitions() == [failing.partition]


def test_shutdown_syncs_no_unchanged_log() -> None:
    broker = Broker(ONE)
    for partition in range(20):
        broker.append(broker.create("orders", partition))
        broker.create("idle", partition)
    broker.stop()
    broker.start()
    for each in broker.logs.partitions():
        assert broker.logs.log(each, now_ms=broker.now_ms) is not None
    before = broker.disk.sync_count
    broker.append(broker.log("orders", 7))
    broker.logs.close()
    assert broker.disk.sync_count - before < 30
    broker.disk.power_cut()
    broker.start()
    assert [broker.log("orders", partition).end_offset for partition in (6, 7)] == [1, 2]


def test_deleted_directories_are_removed_a_few_at_a_time() -> None:
    broker = Broker(ONE)
    partitions = [broker.create("orders", partition).partition for partition in range(250)]
    broker.logs.delete_all(partitions, now_ms=broker.now_ms)
    broker.pass_time(1000)
    assert len([name for name in broker.disk.names(ONE) if name.endswith("-delete")]) == 50
    broker.pass_time(1)
    assert [name for name in broker.disk.names(ONE) if name.endswith("-delete")] == []


def test_partition_size_is_known_without_opening_its_log() -> None:
    broker = Broker(ONE)
    partition = TopicPartition("orders", 0)
    broker.append(broker.create("orders"), 9)
    size_bytes = broker.log("orders").size_bytes
    assert size_bytes > 9 * 60
    assert broker.logs.directory_of(partition).size_bytes(partition) == size_bytes
    broker.stop()
    broker.start()
    directory = broker.logs.directory_of(partition)
    assert directory.size_bytes(partition) == size_bytes
    assert list(broker.logs.opened()) == []
    assert directory.volume().usable_bytes <= directory.volume().total_bytes


def test_adopted_directory_keeps_its_topic_id_from_the_next_flush_on() -> None:
    """Recovery has flushed the log before it could be adopted."""
    broker = Broker(ONE)
    partition = TopicPartition("orders", 0)
    broker.append(broker.create("orders"), 2)
    broker.disk.remove(ONE / "orders-0" / "partition.metadata")
    broker.crash()
    broker.pass_time(1)
    log = broker.log("orders")
    assert log.recovery_point == 2
    broker.logs.directory_of(partition).adopt(partition, TOPIC_ID)
    broker.append(log)
    log.flush()
    broker.disk.power_cut()
    broker.start()
    assert broker.logs.directory_of(partition).topic_id(partition) == TOPIC_ID


@pytest.mark.parametrize("is_recreated", [False, True])
def test_background_work_skips_a_partition_deleted_before_its_turn(
    is_recreated: bool,
) -> None:
    """RT-4. Its files may be gone, or those of a re-created partition."""
    broker = Broker(ONE)
    doomed = [broker.create("orders", number) for number in range(150)]
    for log in doomed:
        broker.append(log)
    broker.pass_time(300_000)
    assert doomed[0].log_start_offset == 1, "the round has begun"
    assert doomed[-1].log_start_offset == 0, "and is not over"
    broker.logs.delete(doomed[-1].partition, now_ms=broker.now_ms)
    if is_recreated:
        broker.append(broker.create("orders", 149))
    broker.pass_time(100)
    assert broker.logs.directories[0].failure is None
    if is_recreated:
        broker.pass_time(2_000)
        assert broker.disk.status(ONE / "orders-149" / "00000000000000000000.log") is not None
        assert broker.log("orders", 149).log_start_offset == 0


DAY_MS = 86_400_000


def test_deletes_and_checkpoints_continue_after_the_clock_is_set_back() -> None:
    """HW-9, RT-5. The clock may have been ahead when the machine was started."""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.create("parcels")
    broker.logs.delete(TopicPartition("parcels", 0), now_ms=broker.now_ms)
    broker.pass_time(-DAY_MS)
    assert not any(name.endswith("-delete") for name in broker.disk.names(ONE))
    broker.append(log, 5)
    broker.pass_time(5_000)
    broker.crash()
    assert broker.log("orders").high_watermark == 5


def test_segments_expire_after_the_clock_was_a_day_ahead() -> None:
    """RT-2. Otherwise the disk could be full before the clock catches up."""
    broker = Broker(ONE)
    log = broker.create("orders")
    broker.pass_time(DAY_MS)
    broker.pass_time(-DAY_MS)
    broker.append(log, 8)
    broker.pass_time(300_000)
    assert log.log_start_offset == 8


def test_flush_ms_works_after_the_clock_is_set_back() -> None:
    broker = Broker(ONE)
    broker.settings = dataclasses.replace(SMALL, flush_ms=10)
    broker.logs = LogManager(
        [PurePath("/three")], broker.tools, StorageSettings(log_flush_scheduler_interval_ms=5)
    )
    broker.logs.open(broker.now_ms)
    log = broker.create("orders")
    broker.append(log)
    broker.pass_time(5)
    broker.pass_time(-DAY_MS)
    broker.pass_time(10)
    assert log.recovery_point == 1


def test_recovery_of_many_unflushed_logs_does_not_exhaust_descriptors() -> None:
    """RC-1. Each flush holds files, and none is done before the start is complete."""
    broker = Broker(ONE)
    for number in range(100):
        broker.append(broker.create("orders", number))
    broker.executor = executor = HeldExecutor(random.Random(1))
    broker.crash()
    for _ in range(20):
        held = [each.path for each in broker.tools.files._descriptors.open if each.is_held]
        assert len(held) <= 64
        broker.pass_time(100)
        executor.finish()
    assert all(broker.log("orders", number).recovery_point == 1 for number in range(100))
