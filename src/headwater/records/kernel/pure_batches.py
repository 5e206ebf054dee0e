"""Functions of the pure kernel on whole batches, used through `pure_kernel`."""

import crc32c

from headwater.common.exceptions import CorruptBatch
from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_END,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MIN_LENGTH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    Codec,
    check_header,
)
from headwater.records.codec_limits import BEGINNINGS, max_record_count
from headwater.records.kernel.batch_runs import (
    BATCHES_REMEMBERED,
    IndexEntry,
    IndexProgress,
    ValidRun,
)
from headwater.records.kernel.pure_offset_map import int64
from headwater.records.record_walk import walk_records

_PRODUCER_SLOTS = 64
_CASTAGNOLI = 0x82F63B78
_X_TO_THE_EIGHTH = 0x00800000


def scan(buffer: Buffer, position: int, limit: int) -> tuple[list[BatchHeader], int]:
    """Return the headers of whole batches in a range, and the position after them.

    An incomplete batch at the end of the range ends the scan; corruption raises as in
    `check_header`.
    """
    limit = min(limit, len(buffer))
    headers = []
    while limit - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        check_header(header)
        if header.size_bytes > limit - position:
            break
        headers.append(header)
        position += header.size_bytes
    return headers, position


def ordinary_header(
    buffer: Buffer, limit_bytes: int, oldest_ms: int, newest_ms: int, validates: bool
) -> BatchHeader | None:
    """Return the header of a client's batch that passes every check, else None.

    With `validates`, uncompressed records are checked too; compressed ones are left to the caller.

    None does not mean invalid: `batch_validator` then looks closer and raises if anything is wrong.
    It must reject everything that this function must not accept, so this one may only be stricter.
    """
    size = len(buffer)
    if not HEADER_BYTES <= size <= limit_bytes:
        return None
    header = BatchHeader._make(HEADER.unpack_from(buffer))
    codec = header.attributes & CODEC_MASK
    beginning = BEGINNINGS.get(codec, b"")
    is_ordinary = (
        header.magic == MAGIC
        and header.base_offset == 0
        and header.size_bytes == size
        and 0 < header.record_count == header.last_offset_delta + 1
        and not header.attributes & (CONTROL_FLAG | APPEND_TIME_FLAG)
        and codec <= Codec.ZSTD
        and header.record_count <= max_record_count(codec, size - HEADER_BYTES)
        and buffer[HEADER_BYTES : HEADER_BYTES + len(beginning)] == beginning
        and oldest_ms <= header.base_timestamp <= newest_ms
        and oldest_ms <= header.max_timestamp <= newest_ms
        and (header.producer_id < 0 or header.base_sequence >= 0)
        and crc32c.crc32c(memoryview(buffer)[CRC_END:]) == header.crc
        and (
            codec != Codec.NONE
            or not validates
            or _has_ordinary_records(buffer, header, oldest_ms, newest_ms)
        )
    )
    return header if is_ordinary else None


def _has_ordinary_records(
    buffer: Buffer, header: BatchHeader, oldest_ms: int, newest_ms: int
) -> bool:
    latest = NO_TIMESTAMP
    section = memoryview(buffer)[HEADER_BYTES:]
    try:
        for index, record in enumerate(walk_records(section, header.record_count)):
            timestamp = int64(header.base_timestamp + record.timestamp_delta)
            latest = max(latest, timestamp)
            is_in_time = oldest_ms <= timestamp <= newest_ms or timestamp == NO_TIMESTAMP
            if record.offset_delta != index or not is_in_time:
                return False
    except CorruptBatch:
        return False
    return latest == header.max_timestamp


def valid_run(
    buffer: Buffer,
    position: int,
    *,
    lowest_offset: int,
    highest_offset: int,
    leader_epoch: int,
    index_interval_bytes: int,
    progress: IndexProgress,
) -> ValidRun:
    """Return the complete, valid batches at the start of a buffer, as one run.

    `position` is the buffer's position in its file. Each batch starts at the lowest offset or
    later, ends at the highest or earlier, and has the given leader epoch or none.
    """
    view = memoryview(buffer)
    largest_timestamp, largest_offset, bytes_since_entry = progress
    entries: list[IndexEntry] = []
    at = 0
    while len(view) - at >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(view, at))
        size = header.size_bytes
        is_sound = (
            _is_sane(header)
            and size <= len(view) - at
            and lowest_offset <= header.base_offset
            and header.last_offset <= highest_offset
            and (header.leader_epoch < 0 or header.leader_epoch == leader_epoch)
            and crc32c.crc32c(view[at + CRC_END : at + size]) == header.crc
        )
        if not is_sound:
            break
        if header.max_timestamp > largest_timestamp:
            largest_timestamp, largest_offset = header.max_timestamp, header.last_offset
        if bytes_since_entry > index_interval_bytes:
            entries.append((header.last_offset, position + at, largest_timestamp, largest_offset))
            bytes_since_entry = 0
        bytes_since_entry += size
        lowest_offset = header.next_offset
        at += size
    progress = IndexProgress(largest_timestamp, largest_offset, bytes_since_entry)
    return ValidRun(at, lowest_offset, progress, entries)


def producer_headers(buffer: Buffer, position: int) -> tuple[list[tuple[int, BatchHeader]], int]:
    """Return headers and positions of producers' batches, and where the walk ended.

    Only headers need to be in the buffer, so the walk may end after it; if it ends inside, the
    header there is incomplete or invalid. Of the non-transactional batches that a producer wrote in
    one epoch only the last few matter for the producer state, and most others are left out.
    """
    found: list[tuple[int, BatchHeader]] = []
    while len(buffer) - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if not _is_sane(header):
            break
        if header.producer_id >= 0:
            found.append((position, header))
        position += header.size_bytes
    return _last_of_each_producer(found), position


def last_header(buffer: Buffer) -> tuple[int, BatchHeader] | None:
    """Return position and header of the last batch with a complete header, or None."""
    position, last = 0, None
    while len(buffer) - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if not _is_sane(header):
            break
        last = (position, header)
        position += header.size_bytes
    return last


def _last_of_each_producer(
    found: list[tuple[int, BatchHeader]],
) -> list[tuple[int, BatchHeader]]:
    """Walk backwards; a slot is overwritten by the next producer that maps to it."""
    slots: dict[int, tuple[int, int, int]] = {}
    kept = []
    for position, header in reversed(found):
        if not header.attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG):
            slot = header.producer_id % _PRODUCER_SLOTS
            producer_id, epoch, count = slots.get(slot, (-1, 0, 0))
            if (producer_id, epoch) != (header.producer_id, header.producer_epoch):
                count = 0
            slots[slot] = (header.producer_id, header.producer_epoch, count + 1)
            if count >= BATCHES_REMEMBERED:
                continue
        kept.append((position, header))
    kept.reverse()
    return kept


def _is_sane(header: BatchHeader) -> bool:
    """Return whether `check_header` would accept the header."""
    return (
        header.magic == MAGIC
        and header.length >= MIN_LENGTH
        and header.last_offset_delta >= 0
        and header.record_count >= 0
    )


def combined_crc(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC of two concatenated strings from the CRCs of both.

    A CRC is the remainder of a polynomial division, with the highest power in the lowest bit.
    Appending bytes to a string multiplies its polynomial by a power of x.
    """
    power = _X_TO_THE_EIGHTH
    while second_bytes:
        if second_bytes & 1:
            first = _product(power, first)
        power = _product(power, power)
        second_bytes >>= 1
    return first ^ second


def _product(left: int, right: int) -> int:
    product = 0
    for shift in range(31, -1, -1):
        if left >> shift & 1:
            product ^= right
        right = right >> 1 ^ (_CASTAGNOLI if right & 1 else 0)
    return product
