"""Second pass: copy, filter, empty or drop each batch (CP-3 to CP-6).

Note: the last batch of every output is kept, if only as an empty header. Kafka keeps the one that
ends the cleaned range; Headwater keeps one per output, because its last offset tells recovery how
far the output reaches, and so which old segments it replaces (see `segment_swap`).
"""

from pathlib import PurePath

from headwater.records.batch_filter import empty_batch, filter_batch
from headwater.records.batch_header import BatchHeader, Buffer, read_header
from headwater.records.checksum import check_crc
from headwater.records.control_batches import read_control
from headwater.records.kernel import OffsetMap, keep_mask
from headwater.records.payload import record_section
from headwater.storage.cleaner.cleaned_segment import CleanedSegment
from headwater.storage.cleaner.cleaned_transaction_metadata import CleanedTransactionMetadata
from headwater.storage.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningJob,
    CleaningStats,
    SourceSegment,
)
from headwater.storage.cleaner.segment_groups import Group
from headwater.storage.cleaner.segment_reader import Chunk, Throttle, corruption_at, read_chunks
from headwater.storage.io.disk import Disk


class SegmentRewriter:
    """Rewrites a log's groups in order, as transactions span segments and groups."""

    def __init__(
        self,
        disk: Disk,
        job: CleaningJob,
        offset_map: OffsetMap,
        stats: CleaningStats,
        throttle: Throttle,
    ) -> None:
        self._disk = disk
        self._job = job
        self._offset_map = offset_map
        self._stats = stats
        self._throttle = throttle
        self._transactions = CleanedTransactionMetadata(job.aborted)
        self._live = {producer.producer_id: producer for producer in job.live_producers}
        self._horizon_ms = job.now_ms + job.delete_retention_ms

    def rewrite(self, group: Group) -> CleanedGroup:
        """Merge a group into one new segment, durable but not yet in place."""
        output = CleanedSegment(self._disk, self._job, group[0].base_offset, self._throttle)
        is_done = False
        try:
            filled = [source for source in group if source.size_bytes > 0]
            for source in filled:
                self._rewrite_segment(source, output, ends_output=source is filled[-1])
            cleaned = output.finish(group)
            is_done = True
            return cleaned
        finally:
            if not is_done:
                output.discard()

    def _rewrite_segment(
        self, source: SourceSegment, output: CleanedSegment, *, ends_output: bool
    ) -> None:
        path = self._job.log_path(source)
        for chunk in read_chunks(
            self._disk, path, source.size_bytes, self._job.io_buffer_bytes, self._throttle
        ):
            end = chunk.position + len(chunk.buffer)
            has_last = ends_output and end == source.size_bytes
            self._rewrite_chunk(path, chunk, output, has_last=has_last)
            output.flush()

    def _rewrite_chunk(
        self, path: PurePath, chunk: Chunk, output: CleanedSegment, *, has_last: bool
    ) -> None:
        stats = self._stats
        position = 0
        for header in chunk.headers:
            end = position + header.size_bytes
            must_stay = self._is_last_of_producer(header) or (has_last and end == len(chunk.buffer))
            with corruption_at(path, chunk.position + position):
                check_crc(chunk.buffer, header, position)
                kept = self._filter(chunk.buffer, header, position, output)
                if kept is None and must_stay:
                    kept = empty_batch(header)
                    stats.emptied_batches += 1
                if kept is not None:
                    self._write(output, kept, chunk.buffer, header, position)
            stats.dropped_batches += kept is None
            stats.read_records += header.record_count
            position = end
        stats.read_bytes += len(chunk.buffer)

    def _write(
        self,
        output: CleanedSegment,
        kept: Buffer,
        source: bytes,
        header: BatchHeader,
        position: int,
    ) -> None:
        if kept is source:
            # Unchanged: the bytes are copied as they are.
            kept = memoryview(source)[position : position + header.size_bytes]
        else:
            header = read_header(kept)
        output.append(kept, header)
        self._stats.written_bytes += header.size_bytes
        self._stats.written_records += header.record_count

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether rebuilding the producer state needs this batch (IDP-12, CP-6)."""
        producer = self._live.get(header.producer_id) if header.has_producer else None
        if producer is None:
            return False
        if producer.last_data_offset >= 0:
            return header.last_offset == producer.last_data_offset
        return header.is_control and header.producer_epoch == producer.epoch

    def _filter(
        self, buffer: bytes, header: BatchHeader, position: int, output: CleanedSegment
    ) -> Buffer | None:
        """Return what to keep of a batch: `buffer` itself for all of it, None for nothing."""
        if header.is_control:
            return self._filter_marker(buffer, header, position, output)
        if self._transactions.is_aborted(header):
            self._stats.aborted_records += header.record_count
            return None
        if header.record_count == 0:
            return None
        if header.base_offset > self._offset_map.latest_offset:
            return buffer
        return self._filter_data(buffer, header, position)

    def _filter_marker(
        self, buffer: bytes, header: BatchHeader, position: int, output: CleanedSegment
    ) -> Buffer | None:
        control = read_control(buffer, header, position, self._job.unpack_limit_bytes)
        retention = self._transactions.end_transaction(header, control)
        if retention.entry is not None:
            output.add_aborted(retention.entry)
        if control is None:
            return None
        if not retention.is_removable:
            return buffer
        if header.delete_horizon_ms is None:
            return self._filtered(buffer, header, position, b"\1" * header.record_count, True)
        return buffer if self._job.now_ms < header.delete_horizon_ms else None

    def _filter_data(self, buffer: bytes, header: BatchHeader, position: int) -> Buffer | None:
        horizon_ms = header.delete_horizon_ms
        payload = record_section(buffer, header, position, self._job.unpack_limit_bytes)
        keep, kept_count, tombstones = keep_mask(
            self._offset_map,
            payload,
            header.record_count,
            header.base_offset,
            horizon_ms is None or self._job.now_ms < horizon_ms,
        )
        if kept_count == 0:
            return None
        needs_horizon = tombstones > 0 and horizon_ms is None
        if kept_count == header.record_count and not needs_horizon:
            return buffer
        return self._filtered(buffer, header, position, keep, needs_horizon)

    def _filtered(
        self, buffer: bytes, header: BatchHeader, position: int, keep: bytes, needs_horizon: bool
    ) -> bytes:
        return filter_batch(
            buffer,
            header,
            position,
            keep,
            delete_horizon_ms=self._horizon_ms if needs_horizon else None,
            limit_bytes=self._job.unpack_limit_bytes,
        )
