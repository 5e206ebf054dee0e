"""A simple log to be compacted: it finds by brute force what a broker knows.

It writes batches to segments on any disk, tracks transactions, and reads everything back like a
consumer: by the aborted transactions of the `.txnindex` files and by the markers. Nothing here uses
the code under test, except the values of a job.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from headwater.records.batch_building import build_batch
from headwater.records.batch_header import BatchHeader, Codec, TimestampType, read_header
from headwater.records.checksum import check_crc
from headwater.records.control_batches import ControlType, build_marker, read_control
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from headwater.storage.cleaner.cleaning_job import (
    CleaningJob,
    CleaningResult,
    LiveProducer,
    SourceSegment,
)
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.io.disk import Disk, read_whole

FOLDER = PurePath("/logs/topic-0")
TXN_ENTRY = struct.Struct(">hqqqq")
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
BIG = 1 << 30


class Batch(NamedTuple):
    """A batch as found on disk."""

    header: BatchHeader
    records: tuple[Record, ...]
    marker: ControlType | None
    position: int
    raw: bytes


class Pair(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def read_segment(disk: Disk, base_offset: int, folder: PurePath = FOLDER) -> list[Batch]:
    """All batches of one segment, with every CRC checked."""
    content = read_whole(disk, folder / f"{base_offset:020d}.log")
    assert content is not None, f"segment {base_offset} is missing"
    batches = []
    position = 0
    while position < len(content):
        header = read_header(content, position)
        check_crc(content, header, position)
        marker = None
        if header.is_control:
            control = read_control(content, header, position)
            marker = None if control is None else ControlType(control.type)
        records = tuple(read_records(content, header, position))
        end = position + header.size_bytes
        batches.append(Batch(header, records, marker, position, content[position:end]))
        position = end
    return batches


def segment_bases(disk: Disk, folder: PurePath = FOLDER) -> list[int]:
    return [int(name[:20]) for name in disk.names(folder) if name.endswith(".log")]


def read_log(disk: Disk, folder: PurePath = FOLDER) -> list[Batch]:
    """All batches of all segments; offsets must rise throughout."""
    batches: list[Batch] = []
    for base in segment_bases(disk, folder):
        batches += read_segment(disk, base, folder)
    ends = [-1] + [batch.header.last_offset for batch in batches]
    for previous, batch in zip(ends, batches, strict=False):
        offsets = [record.offset or 0 for record in batch.records]
        assert previous < batch.header.base_offset
        assert offsets == sorted(set(offsets))
        assert all(batch.header.base_offset <= each <= batch.header.last_offset for each in offsets)
    return batches


def read_aborted(disk: Disk, folder: PurePath = FOLDER) -> list[AbortedTransaction]:
    spans = []
    for base in segment_bases(disk, folder):
        content = read_whole(disk, folder / f"{base:020d}.txnindex") or b""
        for version, producer, first, last, stable in TXN_ENTRY.iter_unpack(content):
            assert version == 0
            span = AbortedTransaction(
                producer_id=producer,
                first_offset=first,
                last_offset=last,
                last_stable_offset=stable,
            )
            spans.append(span)
    return spans


def read_committed(disk: Disk, last_stable_offset: int, folder: PurePath = FOLDER) -> list[Pair]:
    """What a read_committed consumer gets from the start of the log (TX-16)."""
    waiting = sorted(read_aborted(disk, folder), key=lambda span: span.first_offset)
    aborted: set[int] = set()
    seen = []
    for batch in read_log(disk, folder):
        header = batch.header
        if header.base_offset >= last_stable_offset:
            break
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            if batch.marker is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            seen += pairs(batch)
    return seen


def pairs(batch: Batch) -> list[Pair]:
    return [
        Pair(record.offset or 0, record.key, record.value, record.timestamp)
        for record in batch.records
    ]


@dataclass
class Producer:
    """A producer's state in a partition."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    last_data_offset: int = -1
    open_since: int | None = None
    is_live: bool = False


@dataclass
class SimpleLog:
    """Appends and rolls; the last segment is the active one."""

    disk: Disk
    folder: PurePath = FOLDER
    bases: list[int] = field(default_factory=lambda: [0])
    end_offset: int = 0
    first_dirty_offset: int = 0
    aborted: list[AbortedTransaction] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.disk.make_directory(self.folder)
        self._touch(self.bases[0])

    @property
    def last_stable_offset(self) -> int:
        opened = [
            each.open_since for each in self.producers.values() if each.open_since is not None
        ]
        return min([*opened, self.end_offset])

    def append(
        self,
        content: Sequence[tuple[bytes | None, bytes | None]],
        *,
        timestamp: int = 1000,
        producer_id: int = -1,
        is_transactional: bool = False,
        codec: Codec = Codec.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> int:
        """Append keys and values as one batch; return its base offset."""
        base = self.end_offset
        producer = self._producer(producer_id)
        if producer is not None and is_transactional and producer.open_since is None:
            producer.open_since = base
        records = [
            Record(key=key, value=value, timestamp=timestamp + index)
            for index, (key, value) in enumerate(content)
        ]
        batch = build_batch(
            records,
            base_offset=base,
            leader_epoch=3,
            codec=codec,
            timestamp_type=timestamp_type,
            producer_id=producer_id,
            producer_epoch=-1 if producer is None else producer.epoch,
            base_sequence=-1 if producer is None else producer.next_sequence,
            is_transactional=is_transactional,
        )
        self._write(batch)
        if producer is not None:
            producer.next_sequence += len(records)
            producer.last_data_offset = self.end_offset - 1
        return base

    def end_transaction(
        self, producer_id: int, *, commit: bool, bumps_epoch: bool = False, timestamp: int = 1000
    ) -> int:
        """Write a marker; return its offset."""
        producer = self._producer(producer_id)
        assert producer is not None
        marker_offset = self.end_offset
        if bumps_epoch:
            # Since KIP-890 the marker carries the next epoch, which starts without data.
            producer.epoch += 1
            producer.next_sequence = 0
            producer.last_data_offset = -1
        batch = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=1,
            timestamp=timestamp,
            base_offset=marker_offset,
            leader_epoch=3,
        )
        first = producer.open_since
        producer.open_since = None
        self._write(batch)
        if first is not None and not commit:
            self._add_aborted(producer_id, first, marker_offset)
        return marker_offset

    def roll(self) -> None:
        if self.end_offset > self.bases[-1]:
            self.bases.append(self.end_offset)
            self._touch(self.end_offset)

    def sync(self) -> None:
        """Make everything durable."""
        for name in self.disk.names(self.folder):
            file = self.disk.open(self.folder / name)
            file.sync()
            file.close()
        for path in (self.folder, *self.folder.parents):
            self.disk.sync_directory(path)

    def cleanable_end(self) -> int:
        """The base of the first segment that must not be cleaned."""
        return max(base for base in self.bases if base <= self.last_stable_offset)

    def job(self, *, now_ms: int = 10_000) -> CleaningJob:
        """The job that a broker would give, without tight limits; `replace` what a test needs."""
        end = self.cleanable_end()
        return CleaningJob(
            folder=self.folder,
            sources=tuple(self._source(base) for base in self.bases if base < end),
            first_dirty_offset=self.first_dirty_offset,
            end_offset=end,
            aborted=tuple(span for span in self.aborted if span.first_offset < end),
            live_producers=tuple(
                LiveProducer(
                    producer_id=each.producer_id,
                    epoch=each.epoch,
                    last_data_offset=each.last_data_offset,
                )
                for each in self.producers.values()
                if each.is_live
            ),
            now_ms=now_ms,
            generation=1,
            delete_retention_ms=1000,
            segment_bytes=BIG,
            segment_index_bytes=BIG,
            index_interval_bytes=200,
            map_memory_bytes=24 * 1000,
            map_seed=bytes(16),
        )

    def accept(self, result: CleaningResult) -> None:
        """Take over the swapped segments."""
        gone = {old.base_offset for group in result.groups for old in group.replaced}
        new = {group.base_offset for group in result.groups}
        self.bases = sorted((set(self.bases) - gone) | new)
        self.first_dirty_offset = result.first_dirty_offset
        kept = {(span.producer_id, span.last_offset) for span in read_aborted(self.disk)}
        self.aborted = [
            span for span in self.aborted if (span.producer_id, span.last_offset) in kept
        ]

    def _source(self, base: int) -> SourceSegment:
        status = self.disk.status(self._path(base, ".log"))
        assert status is not None
        return SourceSegment(
            base_offset=base,
            size_bytes=status.size,
            modified_ms=status.modified_ms,
            offset_index_bytes=0,
            time_index_bytes=0,
        )

    def _producer(self, producer_id: int) -> Producer | None:
        if producer_id < 0:
            return None
        producer = self.producers.setdefault(producer_id, Producer(producer_id))
        producer.is_live = True
        return producer

    def _touch(self, base: int) -> None:
        for kind in (".log", ".index", ".timeindex"):
            self.disk.open(self._path(base, kind), create=True).close()

    def _write(self, batch: bytes) -> None:
        self._append_to(".log", batch)
        self.end_offset = read_header(batch).next_offset

    def _add_aborted(self, producer_id: int, first: int, last: int) -> None:
        span = AbortedTransaction(
            producer_id=producer_id,
            first_offset=first,
            last_offset=last,
            last_stable_offset=self.last_stable_offset,
        )
        self.aborted.append(span)
        entry = TXN_ENTRY.pack(0, producer_id, first, last, span.last_stable_offset)
        self._append_to(".txnindex", entry)

    def _append_to(self, kind: str, content: bytes) -> None:
        file = self.disk.open(self._path(self.bases[-1], kind), create=True)
        file.write([content], file.size())
        file.close()

    def _path(self, base: int, kind: str) -> PurePath:
        return self.folder / f"{base:020d}{kind}"
