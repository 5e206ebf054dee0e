"""Write a cleaned segment: the log and its indexes, all under `.cleaned` names.

The indexes get the entries that an append would have given them: one in the offset index and, if
the largest timestamp has risen, one in the time index after every index.interval.bytes of log; and
a last one in the time index for the largest timestamp.
"""

import struct
from collections.abc import Sequence
from pathlib import PurePath

from headwater.common.exceptions import CorruptBatch
from headwater.common.ids import NO_TIMESTAMP
from headwater.common.settings.topic_settings import INT_MAX
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.storage.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningJob,
    ReplacedSegment,
    SourceSegment,
)
from headwater.storage.cleaner.segment_reader import Throttle
from headwater.storage.index.transaction_index import AbortedTransaction, TransactionIndex
from headwater.storage.io.disk import Disk, File
from headwater.storage.log.segment_files import (
    CLEANED,
    INDEX,
    LOG,
    SEGMENT_KINDS,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
)

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class CleanedSegment:
    """New segment. `finish` makes it durable; `discard` removes all its files."""

    def __init__(self, disk: Disk, job: CleaningJob, base_offset: int, throttle: Throttle) -> None:
        self._disk = disk
        self._job = job
        self._base_offset = base_offset
        self._throttle = throttle
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._size_bytes = 0
        self._bytes_since_entry = 0
        self._next_offset = base_offset
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max = base_offset
        self._last_time_entry = NO_TIMESTAMP
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._file: File = disk.open(self._path(LOG), create=True)
        self._transactions = TransactionIndex(disk, self._path(TRANSACTION_INDEX), base_offset)

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Add a complete batch. The buffer must not change until `flush`."""
        relative = header.last_offset - self._base_offset
        position = self._size_bytes + self._pending_bytes
        if header.base_offset < self._next_offset or relative > INT_MAX:
            raise CorruptBatch(
                f"offsets {header.base_offset} to {header.last_offset} cannot follow "
                f"{self._next_offset} in the segment at {self._base_offset}"
            )
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._offset_of_max = header.last_offset
        if self._bytes_since_entry > self._job.index_interval_bytes and position <= INT_MAX:
            self._add_index_entries(relative, position)
        self._pending.append(batch)
        self._pending_bytes += header.size_bytes
        self._bytes_since_entry += header.size_bytes
        self._next_offset = header.next_offset

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        self._transactions.append(aborted)

    def flush(self) -> None:
        """Write the appended batches and release their buffers."""
        if self._pending:
            self._file.write(self._pending, self._size_bytes)
            self._throttle(self._pending_bytes)
            self._size_bytes += self._pending_bytes
            self._pending = []
            self._pending_bytes = 0

    def finish(self, replaced: Sequence[SourceSegment]) -> CleanedGroup:
        """Sync all files with the last source's modification time; describe the result."""
        self.flush()
        self._add_time_entry(at_end=True)
        self._file.sync()
        self._file.close()
        self._write_index(INDEX, self._offset_entries)
        self._write_index(TIME_INDEX, self._time_entries)
        self._transactions.sync()
        modified_ms = replaced[-1].modified_ms
        for kind in (LOG, INDEX, TIME_INDEX):
            self._disk.set_modified(self._path(kind), modified_ms)
        return CleanedGroup(
            base_offset=self._base_offset,
            next_offset=self._next_offset,
            size_bytes=self._size_bytes,
            offset_index_bytes=len(self._offset_entries),
            time_index_bytes=len(self._time_entries),
            has_transaction_index=len(self._transactions) > 0,
            largest_timestamp_ms=self._max_timestamp,
            offset_of_largest_timestamp=self._offset_of_max,
            modified_ms=modified_ms,
            replaced=tuple(
                ReplacedSegment(base_offset=source.base_offset, size_bytes=source.size_bytes)
                for source in replaced
            ),
        )

    def discard(self) -> None:
        self._file.close()
        for kind in SEGMENT_KINDS:
            self._disk.remove(self._path(kind))

    def _add_index_entries(self, relative: int, position: int) -> None:
        # A full index gets no more entries: it is sparse, and a lookup scans on.
        if len(self._offset_entries) + _OFFSET_ENTRY.size <= self._job.segment_index_bytes:
            self._offset_entries += _OFFSET_ENTRY.pack(relative, position)
        self._add_time_entry(at_end=False)
        self._bytes_since_entry = 0

    def _add_time_entry(self, *, at_end: bool) -> None:
        if self._max_timestamp <= self._last_time_entry:
            return
        # One slot stays free for the last entry.
        entries = 1 if at_end else 2
        room = self._job.segment_index_bytes - len(self._time_entries)
        if room >= entries * _TIME_ENTRY.size:
            relative = self._offset_of_max - self._base_offset
            self._time_entries += _TIME_ENTRY.pack(self._max_timestamp, relative)
            self._last_time_entry = self._max_timestamp

    def _write_index(self, kind: str, entries: bytearray) -> None:
        file = self._disk.open(self._path(kind), create=True)
        try:
            if entries:
                file.write([entries], 0)
            file.sync()
        finally:
            file.close()

    def _path(self, kind: str) -> PurePath:
        return self._job.folder / file_name(self._base_offset, kind, CLEANED)
