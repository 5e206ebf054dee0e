"""The fetched data of one partition, buffered for the application.

Batches are stored as received and decoded in portions when the application takes them, so that the
buffer is never larger than what was fetched.

Note: taking rows also skips control batches, aborted transactions and records that compaction
removed; `next_offset` is the position after them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.client.consumer.fetch.read_committed import (
    PlacedBatch,
    without_aborted,
    without_control,
)
from headwater.common.exceptions import BatchError
from headwater.common.ids import NO_EPOCH, TopicPartition
from headwater.protocol.messages.fetch import AbortedTransaction
from headwater.records.batch_header import CODEC_MASK, HEADER_BYTES, LENGTH_END, BatchHeader
from headwater.records.checksum import check_crc as check_batch_crc
from headwater.records.kernel import decode_sections, scan
from headwater.records.kernel.buffers import DecodedColumns, RecordSection
from headwater.records.payload import record_section

_DECODED_AT_ONCE: Final = 4_096
"""Maximum of records decoded at once, unless more are requested or one batch has more."""
_ALL: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a consumer reads batches."""

    is_committed_only: bool = False
    checks_crc: bool = True
    unpacked_max_bytes: int = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A range of rows in decoded columns, of one partition and one leader epoch."""

    partition: TopicPartition
    columns: DecodedColumns
    start: int
    stop: int
    leader_epoch: int


class CompletedFetch:
    """The data of one partition in one Fetch response."""

    def __init__(
        self,
        partition: TopicPartition,
        token: int,
        data: bytes | memoryview,
        *,
        fetch_offset: int,
        aborted: Sequence[AbortedTransaction],
        reading: Reading,
    ) -> None:
        """Raises CorruptBatch for malformed batches."""
        headers, _ = scan(data, 0, len(data))
        placed = list(_placed(headers))
        visible: Iterable[PlacedBatch] = (
            without_aborted(data, placed, aborted)
            if reading.is_committed_only
            else without_control(placed)
        )
        self.partition = partition
        self.token = token
        self.size_bytes = len(data)
        self.end_offset = max(headers[-1].next_offset, fetch_offset) if headers else fetch_offset
        """The offset of the next fetch."""
        self.end_epoch = headers[-1].leader_epoch if headers else NO_EPOCH
        self.next_offset = fetch_offset
        self.next_epoch = NO_EPOCH
        self._data = data
        self._reading = reading
        self._batches = deque(visible)
        self._columns: DecodedColumns | None = None
        self._offsets = memoryview(b"").cast("q")
        self._row = 0
        self._columns_end = fetch_offset
        self._columns_epoch = NO_EPOCH

    @property
    def is_empty(self) -> bool:
        return not self._batches and self._columns is None

    def detach(self) -> None:
        """Copy the data out of the response, because it will be buffered for longer."""
        if isinstance(self._data, memoryview):
            self._data = bytes(self._data)

    def take_all(self, *, views: bool) -> Rows | None:
        """Take as many rows as belong together, with values as views if wanted."""
        return self._take(_ALL, views=views)

    def take(self, limit: int) -> Rows | None:
        """Take up to `limit` rows; None at the end of the data, at `next_offset`.

        Raises CorruptBatch and other decoding errors; the position stays before the bad batch.
        """
        return self._take(limit, views=False)

    def _take(self, limit: int, *, views: bool) -> Rows | None:
        while self._columns is None:
            if not self._batches:
                self.next_offset, self.next_epoch = self.end_offset, self.end_epoch
                return None
            self._decode(max(limit, _DECODED_AT_ONCE), views=views)
        start = self._row
        stop = min(start + limit, self._columns.row_count)
        rows = Rows(
            partition=self.partition,
            columns=self._columns,
            start=start,
            stop=stop,
            leader_epoch=self._columns_epoch,
        )
        self._move_to(stop)
        return rows

    def put_back(self, rows: Rows, count: int) -> None:
        """Return all but the first `count` of the rows just taken."""
        self._columns = rows.columns
        self._offsets = memoryview(rows.columns.offsets).cast("B").cast("q")
        self._columns_end = max(self._columns_end, self.next_offset)
        self._row = rows.start + count
        self.next_offset = self._offsets[self._row]

    def _move_to(self, row: int) -> None:
        assert self._columns is not None
        self._row = row
        self.next_epoch = self._columns_epoch
        if row < self._columns.row_count:
            self.next_offset = self._offsets[row - 1] + 1
            return
        self._columns = None
        self.next_offset = self._columns_end
        if not self._batches:
            # Only invisible batches follow; skip them now.
            self.next_offset, self.next_epoch = self.end_offset, self.end_epoch

    def _decode(self, at_once: int, *, views: bool) -> None:
        """Decode the next batches that share a leader epoch, up to a limit."""
        chosen = [self._batches.popleft()]
        count = chosen[0][1].record_count
        epoch = chosen[0][1].leader_epoch
        while (
            self._batches
            and self._batches[0][1].leader_epoch == epoch
            and count + self._batches[0][1].record_count <= at_once
        ):
            chosen.append(self._batches.popleft())
            count += chosen[-1][1].record_count
        last = chosen[-1][1]
        first_position = chosen[0][0]
        try:
            columns = decode_sections(
                self._sections(chosen),
                first_offset=self.next_offset,
                expected_bytes=chosen[-1][0] + last.size_bytes - first_position,
                checks_crc=self._reading.checks_crc,
                views=views,
            )
        except BatchError:
            self._batches.extendleft(reversed(chosen))
            if len(chosen) == 1:
                raise
            # Return the intact batches before the damage first, one by one.
            self._decode(0, views=views)
            return
        self._columns_end, self._columns_epoch = last.next_offset, epoch
        if columns.row_count:
            self._columns = columns
            self._offsets = memoryview(columns.offsets).cast("B").cast("q")
            self._row = 0
        else:
            # All records are below the fetch offset, or compaction removed them.
            self.next_offset = max(self.next_offset, last.next_offset)

    def _sections(self, batches: Sequence[PlacedBatch]) -> Iterator[RecordSection]:
        for position, header in batches:
            if header.attributes & CODEC_MASK:
                if self._reading.checks_crc:
                    check_batch_crc(self._data, header, position)
                limit = self._reading.unpacked_max_bytes
                unpacked = record_section(self._data, header, position, limit)
                yield unpacked, 0, len(unpacked), header
            else:
                stop = position + LENGTH_END + header.length
                yield self._data, position + HEADER_BYTES, stop, header


def _placed(headers: Sequence[BatchHeader]) -> Iterator[PlacedBatch]:
    position = 0
    for header in headers:
        yield position, header
        position += LENGTH_END + header.length
