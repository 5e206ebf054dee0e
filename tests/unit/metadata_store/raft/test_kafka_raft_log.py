"""The metadata log in files: what survives a crash, and what a start refuses."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import CorruptFile, StorageError
from headwater.metadata_store.raft.kafka_raft_log import (
    KafkaRaftLog,
    MetadataLogConfig,
    RaftLogTools,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.storage.io.disk import read_whole
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.seeded_random import SeededRandom

DIRECTORY = PurePath("/data/__cluster_metadata-0")


def opened(disk: LossyDisk, segment_bytes: int = 300) -> KafkaRaftLog:
    return KafkaRaftLog(
        DIRECTORY,
        config=MetadataLogConfig(segment_bytes=segment_bytes),
        tools=RaftLogTools(
            disk=disk,
            files=OpenFiles(disk, 16),
            executor=InlineExecutor(),
            random=SeededRandom(random.Random(1)),
            now_ms=lambda: 0,
        ),
    )


def batch(text: str) -> bytearray:
    return bytearray(build_batch([Record(value=text.encode(), timestamp=0)]))


def flush(log: KafkaRaftLog) -> None:
    outcomes: list[StorageError | None] = []
    log.flush(outcomes.append)
    assert outcomes == [None]


def snapshot(log: KafkaRaftLog, snapshot_id: OffsetAndEpoch) -> None:
    writer = log.create_new_snapshot(snapshot_id)
    assert writer is not None
    writer.append(b"state")
    writer.freeze()


def test_a_new_log_has_kafkas_files() -> None:
    disk = LossyDisk(random.Random(1))
    log = opened(disk)
    log.append_as_leader(batch("a"), 3)
    flush(log)
    assert disk.names(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert read_whole(disk, DIRECTORY / "leader-epoch-checkpoint") == b"0\n1\n3 0\n"
    identity = read_whole(disk, DIRECTORY / "partition.metadata")
    assert identity == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"


def test_reads_are_whole_batches_below_an_end() -> None:
    log = opened(LossyDisk(random.Random(1)), segment_bytes=1 << 20)
    first, second = batch("first"), batch("second")
    log.append_as_leader(first + second, 1)
    assert log.end_offset == 2
    whole = bytes(log.read(0, 2, 1 << 20))
    size = len(first)
    assert bytes(log.read(0, 1, 1 << 20)) == whole[:size]
    assert bytes(log.read(0, 2, size + 5)) == whole[:size]
    assert bytes(log.read(0, 2, 1)) == whole[:size]
    assert bytes(log.read(1, 2, 1 << 20)) == whole[size:]
    assert log.read(2, 2, 1 << 20) == b""


@pytest.mark.parametrize("seed", range(5))
def test_flushed_records_survive_a_power_cut_at_every_step(seed: int) -> None:
    """Of an append under way, any whole batches may survive, but nothing else."""
    for step in range(1, 400):
        disk = LossyDisk(random.Random(seed * 1_000 + step))
        disk.crash_at_step(step)
        flushed = 0
        texts = [f"record {number} {'x' * (number % 3) * 40}" for number in range(12)]
        try:
            log = opened(disk)
            for number, text in enumerate(texts):
                log.append_as_leader(batch(text), 1 + number // 4)
                if number % 2:
                    flush(log)
                    flushed = log.end_offset
        except PowerCut:
            pass
        else:
            return
        log = opened(disk.power_cut())
        assert flushed <= log.end_offset <= len(texts)
        content = b""
        while len(content) < log._log.size_bytes:
            content += log.read(_next_offset(content), log.end_offset, 1 << 20)
        for number in range(log.end_offset):
            assert texts[number].encode() in content
    pytest.fail("the story has more steps than were tried")


def _next_offset(content: bytes) -> int:
    count = 0
    position = 0
    while position < len(content):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        count += 1
    return count


def test_a_snapshot_beyond_the_log_replaces_it_also_after_a_crash() -> None:
    disk = LossyDisk(random.Random(1))
    log = opened(disk)
    log.append_as_leader(batch("old"), 1)
    flush(log)
    snapshot(log, OffsetAndEpoch(9, 2))
    log = opened(disk.power_cut())
    assert (log.start_offset, log.end_offset, log.last_fetched_epoch) == (9, 9, 2)
    assert log.end_offset_for_epoch(2) == OffsetAndEpoch(9, 2)


def test_cleaning_deletes_segments_and_snapshots_and_survives_a_start() -> None:
    disk = LossyDisk(random.Random(1))
    log = opened(disk, segment_bytes=150)
    for number in range(10):
        log.append_as_leader(batch(f"record {number}"), 1)
    flush(log)
    snapshot(log, OffsetAndEpoch(3, 1))
    snapshot(log, OffsetAndEpoch(7, 1))
    assert log.delete_before_snapshot(OffsetAndEpoch(7, 1))
    assert (log.start_offset, log.end_offset) == (7, 10)
    assert log.earliest_snapshot_id == OffsetAndEpoch(7, 1)
    assert not log.delete_before_snapshot(OffsetAndEpoch(7, 1))
    logs = [name for name in disk.names(DIRECTORY) if name.endswith((".log", ".deleted"))]
    assert logs[0] > "00000000000000000000.log"
    again = opened(disk.process_crash())
    assert 0 < again.start_offset <= 7
    assert again.end_offset == 10


def test_a_log_whose_snapshot_is_gone_does_not_start() -> None:
    """A replica that forgot committed records could win an election without them."""
    disk = LossyDisk(random.Random(1))
    log = opened(disk, segment_bytes=150)
    for number in range(10):
        log.append_as_leader(batch(f"record {number}"), 1)
    snapshot(log, OffsetAndEpoch(7, 1))
    log.delete_before_snapshot(OffsetAndEpoch(7, 1))
    log.close()
    disk.remove(DIRECTORY / "00000000000000000007-0000000001.checkpoint")
    with pytest.raises(CorruptFile, match="no snapshot covers them"):
        opened(disk)


def test_a_failed_sync_fences_the_log() -> None:
    disk = LossyDisk(random.Random(1))
    log = opened(disk)
    log.append_as_leader(batch("a"), 1)
    disk.fail_next_sync("*.log")
    outcomes: list[StorageError | None] = []
    log.flush(outcomes.append)
    assert isinstance(outcomes[0], StorageError)
    assert log.failure is outcomes[0]
    with pytest.raises(StorageError):
        log.append_as_leader(batch("b"), 1)
