"""First pass: map each key in the dirty part of a log to its newest offset.

Only committed data is mapped. A full map ends the pass early, perhaps inside a batch: the map's
`latest_offset` is then the last offset that this cleaning may compact, and the next round continues
after it.
"""

from pathlib import PurePath

from headwater.records.batch_header import BatchHeader
from headwater.records.kernel import OffsetMap, map_records
from headwater.records.payload import record_section
from headwater.storage.cleaner.cleaned_transaction_metadata import CleanedTransactionMetadata
from headwater.storage.cleaner.cleaning_job import CleaningJob, CleaningStats, SourceSegment
from headwater.storage.cleaner.segment_reader import Chunk, Throttle, corruption_at, read_chunks
from headwater.storage.io.disk import Disk


def map_dirty_part(
    disk: Disk, job: CleaningJob, stats: CleaningStats, throttle: Throttle
) -> OffsetMap:
    """Map [first_dirty_offset, end_offset), or as much of it as the map can hold."""
    mapping = _Mapping(job, stats)
    for source in dirty_sources(job):
        path = job.log_path(source)
        for chunk in read_chunks(disk, path, source.size_bytes, job.io_buffer_bytes, throttle):
            stats.mapped_bytes += len(chunk.buffer)
            if not mapping.add_chunk(path, chunk):
                return mapping.offset_map
    # There may be a gap before the next segment; nothing of the range is left there.
    mapping.offset_map.latest_offset = job.end_offset - 1
    return mapping.offset_map


def dirty_sources(job: CleaningJob) -> list[SourceSegment]:
    next_bases = [source.base_offset for source in job.sources[1:]] + [job.end_offset]
    return [
        source
        for source, next_base in zip(job.sources, next_bases, strict=True)
        if next_base > job.first_dirty_offset and source.base_offset < job.end_offset
    ]


class _Mapping:
    """Offset map being filled."""

    __slots__ = ("_has_data", "_job", "_stats", "_transactions", "offset_map")

    def __init__(self, job: CleaningJob, stats: CleaningStats) -> None:
        self._job = job
        self._stats = stats
        self._transactions = CleanedTransactionMetadata(job.aborted)
        self._has_data = False
        self.offset_map = new_offset_map(job)
        self.offset_map.latest_offset = job.first_dirty_offset - 1

    def add_chunk(self, path: PurePath, chunk: Chunk) -> bool:
        """Map the batches of a chunk; return False once the map is full."""
        position = 0
        for header in chunk.headers:
            if header.last_offset >= self._job.first_dirty_offset:
                with corruption_at(path, chunk.position + position):
                    if not self._add_batch(chunk.buffer, header, position):
                        return False
            position += header.size_bytes
        return True

    def _add_batch(self, buffer: bytes, header: BatchHeader, position: int) -> bool:
        if (
            not header.is_control
            and not self._transactions.is_aborted(header)
            and header.record_count
        ):
            if not self._has_data:
                self._grow_for(header.record_count)
                self._has_data = True
            payload = record_section(buffer, header, position, self._job.unpack_limit_bytes)
            taken = map_records(self.offset_map, payload, header.record_count, header.base_offset)
            self._stats.mapped_records += taken
            if taken < header.record_count:
                return False
        self.offset_map.latest_offset = header.last_offset
        return True

    def _grow_for(self, record_count: int) -> None:
        """Grow the map so that the first batch fits, or no round would make progress."""
        memory_bytes = self._job.map_memory_bytes
        while self.offset_map.capacity < record_count:
            memory_bytes *= 2
            latest_offset = self.offset_map.latest_offset
            self.offset_map = new_offset_map(self._job, memory_bytes)
            self.offset_map.latest_offset = latest_offset


def new_offset_map(job: CleaningJob, memory_bytes: int | None = None) -> OffsetMap:
    return OffsetMap(memory_bytes or job.map_memory_bytes, job.map_load_factor, job.map_seed)
