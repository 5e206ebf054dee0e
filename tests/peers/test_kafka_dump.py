"""Apache Kafka's dump tool reads Headwater's segments, indexes and snapshots.

The tool reports problems on standard error and still exits with 0, so that must be empty.
"""

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.common.ids import TopicId, TopicPartition
from headwater.common.settings.storage_settings import StorageSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import BatchHeader, Codec, TimestampType
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.io.os_disk import OsDisk
from headwater.storage.log.batch_walk import walk_batches
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.peers.jars import KAFKA_4_1
from tests.simulation.fakes.inline_cleaner import InlineCleaner
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.log_lab import START_MS

DELETED = TopicSettings(segment_bytes=20_000, index_interval_bytes=1000)
COMPACTED = TopicSettings(
    cleanup_policy=("compact",),
    segment_bytes=20_000,
    index_interval_bytes=1000,
    min_cleanable_dirty_ratio=0.01,
    file_delete_delay_ms=0,
)
PRODUCERS = (1000, 1001, 1002)


class Scribe:
    """Fill logs on a real disk with various batches, and shut down cleanly."""

    def __init__(self, path: Path) -> None:
        self.rng = random.Random(11)
        self.now_ms = START_MS
        disk = OsDisk()
        executor = InlineExecutor()
        settings = StorageSettings(log_cleaner_dedupe_buffer_size=1 << 20)
        tools = DirectoryTools(
            node_id=1,
            cluster_id="here",
            disk=disk,
            files=OpenFiles(disk, 64),
            executor=executor,
            rng=SeededRandom(self.rng),
            settings_for=lambda topic: COMPACTED if topic == "accounts" else DELETED,
        )
        self.logs = LogManager([path], tools, settings)
        self.logs.open(self.now_ms)
        self.cleaner = LogCleaner(
            self.logs,
            settings,
            begin=lambda job: InlineCleaner(lambda: clean(disk, job)),
            executor=executor,
            rng=SeededRandom(self.rng),
        )

    def create(self, topic: str) -> UnifiedLog:
        return self.logs.create(TopicPartition(topic, 0), TopicId(bytes(16)), now_ms=self.now_ms)

    def fill(self, log: UnifiedLog, count: int) -> None:
        """Plain batches, and transactions of several producers that commit or abort."""
        sequences = dict.fromkeys(PRODUCERS, 0)
        opened = dict.fromkeys(PRODUCERS, False)
        for number in range(count):
            self.now_ms += 10
            epoch = 2 * number // count
            producer_id = self.rng.choice(PRODUCERS)
            if opened[producer_id] and self.rng.random() < 0.3:
                self._end(log, producer_id, epoch)
                opened[producer_id] = False
                continue
            records = [self._record() for _ in range(self.rng.randint(1, 6))]
            batch = build_batch(records, codec=Codec(number % len(Codec)))
            if self.rng.random() < 0.6:
                batch = build_batch(
                    records,
                    codec=Codec(number % len(Codec)),
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequences[producer_id],
                    is_transactional=True,
                )
                sequences[producer_id] += len(records)
                opened[producer_id] = True
            log.append_as_leader(bytearray(batch), leader_epoch=epoch, now_ms=self.now_ms)
        for producer_id in PRODUCERS:
            self._end(log, producer_id, 1)
        log.raise_high_watermark(log.end_offset)

    def compact(self, log: UnifiedLog) -> None:
        log.roll(self.now_ms)
        log.flush()
        self.cleaner.tick(self.now_ms)
        while self.cleaner.is_busy:
            self.cleaner.tick(self.now_ms)

    def _record(self) -> Record:
        rng = self.rng
        text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(1, 120)))
        return Record(
            key=b"key%02d" % rng.randint(0, 40),
            value=None if rng.random() < 0.15 else text.encode(),
            timestamp=self.now_ms + rng.randint(-50, 50),
            headers=(("trace", b"1"), ("none", None)) if rng.random() < 0.3 else (),
        )

    def _end(self, log: UnifiedLog, producer_id: int, epoch: int) -> None:
        is_commit = self.rng.random() < 0.5
        marker = build_marker(
            ControlType.COMMIT if is_commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=3,
            timestamp=self.now_ms,
        )
        log.append_as_leader(
            bytearray(marker),
            leader_epoch=epoch,
            now_ms=self.now_ms,
            origin=AppendOrigin.COORDINATOR,
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    scribe = Scribe(path)
    scribe.fill(scribe.create("orders"), 600)
    accounts = scribe.create("accounts")
    scribe.fill(accounts, 600)
    scribe.compact(accounts)
    scribe.logs.close()
    return path


def dumped(files: list[Path], *options: str) -> tuple[list[str], list[str]]:
    """Output of Kafka's tool, and its warnings."""
    names = ",".join(map(str, files))
    command = ["java", "-Xmx256m", "-cp", KAFKA_4_1.class_path, "kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--files", names, *options], capture_output=True, text=True, check=True
    )
    noise = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")]
    return done.stdout.splitlines(), noise


def our_lines(path: Path) -> Iterator[str]:
    """A segment as Kafka's tool should print it."""
    file = OsDisk().open(path)
    for batch in walk_batches(file, 0, file.size()):
        header = batch.header
        yield _batch_line(header, batch.position)
        for record in read_records(batch.content, header):
            yield _record_line(record, header)
    file.close()


def _batch_line(header: BatchHeader, position: int) -> str:
    horizon = header.delete_horizon_ms
    last_sequence = header.base_sequence
    if header.base_sequence >= 0:
        last_sequence += header.last_offset_delta
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
        f"count: {header.record_count} baseSequence: {header.base_sequence} "
        f"lastSequence: {last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {str(header.is_transactional).lower()} "
        f"isControl: {str(header.is_control).lower()} "
        f"deleteHorizonMs: OptionalLong{'.empty' if horizon is None else f'[{horizon}]'} "
        f"position: {position} {_time_name(header)}: {header.max_timestamp} "
        f"size: {header.size_bytes} magic: 2 compresscodec: {header.codec.name.lower()} "
        f"crc: {header.crc} isvalid: true"
    )


def _record_line(record: Record, header: BatchHeader) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    sequence = -1
    if header.base_sequence >= 0:
        sequence = header.base_sequence + (record.offset or 0) - header.base_offset
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_time_name(header)}: {record.timestamp} keySize: {key_size} "
        f"valueSize: {value_size} sequence: {sequence} headerKeys: [{names}]"
    )
    if header.is_control:
        return line
    key = "" if record.key is None else f" key: {record.key.decode()}"
    value = "" if record.value is None else f" payload: {record.value.decode()}"
    return line + key + value


def _time_name(header: BatchHeader) -> str:
    is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
    return "CreateTime" if is_create_time else "LogAppendTime"


def test_kafka_reads_every_record(folder: Path) -> None:
    files = sorted(folder.glob("*/*.log"))
    assert len(files) > 5
    shown, complaints = dumped(files, "--deep-iteration", "--print-data-log")
    wanted = [line for file in files for line in our_lines(file)]
    lines = [line for line in shown if line.startswith(("baseOffset:", "| offset:"))]
    lines = [re.sub(r" endTxnMarker: .*", "", line) for line in lines]
    assert lines == wanted
    # Compaction leaves gaps between offsets, which the tool mentions.
    of_orders = [line for line in complaints if "orders-0" in line]
    assert of_orders == []


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_kafka_accepts_the_indexes(folder: Path, kind: str, option: str) -> None:
    """With one exception: the tool also reports Kafka's own time indexes for emptied batches."""
    topic = "*" if kind == "index" else "orders-0"
    shown, complaints = dumped(sorted(folder.glob(f"{topic}/*.{kind}")), option)
    assert complaints == []
    assert not [line for line in shown if "mismatch" in line.lower()]


@pytest.mark.parametrize("kind", ["txnindex", "snapshot"])
def test_kafka_reads_aborted_transactions_and_producer_snapshots(folder: Path, kind: str) -> None:
    files = sorted(folder.glob(f"*/*.{kind}"))
    shown, complaints = dumped(files)
    assert complaints == []
    assert len(shown) > len(files)
