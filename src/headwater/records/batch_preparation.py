"""Validate and recompress large client batches off the event loop.

Small batches are validated by the append itself, on the event loop: passing them to a thread would
take longer. Large compressed batches, batches with another codec than the topic's (PV-5), and
compressed batches for a compacted topic (CP-8) take milliseconds per megabyte.

    on the loop      `needs_preparation` looks at a few bytes; the batch is copied
    on a thread      `prepare_batch` rejects what an append would reject
    on the loop      the prepared batch is appended, after `check_prepared`

Note: a small batch can decompress to a large one. The append on the loop stops at
`LOOP_UNPACKED_BYTES` with `ValidationDeferred`, and the batch is prepared on a thread after all.

Note: settings may change in between. `check_prepared` then checks the batch's header again under
the new ones. Duplicates are detected at the append.
"""

from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import BatchListTooLarge, BatchTooLarge
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    FLAGS_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    Buffer,
    Codec,
    read_header,
)
from headwater.records.batch_validator import (
    check_client_batch,
    check_keys,
    check_timestamps,
    compression_level,
    corrected,
    recompress,
    topic_codec,
    wanted_codec,
)

LOOP_BATCH_BYTES: Final = (1 << 21, 1 << 13, 1 << 16, 1 << 16, 1 << 15)
"""Largest batch validated on the event loop, by codec: none, gzip, snappy, lz4, zstd.

Each takes about 0.2 ms, twice as long as passing a batch to a thread and back. Uncompressed it is 2
ms for the smallest records, and a tenth of that for typical ones.
"""

LOOP_UNPACKED_BYTES: Final = 1 << 18
"""Limit of decompression on the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch:
    """A client's batch, validated and compressed with its topic's codec."""

    content: bytearray | memoryview
    header: BatchHeader
    settings: TopicSettings


def always_needs_preparation(settings: TopicSettings) -> bool:
    """Return whether even small batches may need it. Depends only on the settings."""
    return topic_codec(settings) is not None or settings.is_compacted


def may_need_preparation(settings: TopicSettings) -> bool:
    """Return whether any batch could need it. Depends only on the settings."""
    return settings.validates_records or topic_codec(settings) is not None


def needs_preparation(batch: Buffer, settings: TopicSettings, *, is_waiting: bool = False) -> bool:
    """Return whether to prepare this batch on a thread. Validates nothing.

    A batch that waits for its turn anyway is prepared whenever it has to be decompressed.
    """
    if len(batch) < HEADER_BYTES or batch[MAGIC_POSITION] != MAGIC:
        return False
    flags = batch[FLAGS_POSITION]
    codec = flags & CODEC_MASK
    if flags & CONTROL_FLAG or codec > Codec.ZSTD:
        return False
    wanted = topic_codec(settings)
    if wanted is not None and wanted != codec:
        return True
    if not settings.validates_records:
        return False
    if codec != Codec.NONE and (is_waiting or settings.is_compacted):
        return True
    return len(batch) > LOOP_BATCH_BYTES[codec]


def prepare_batch(batch: bytearray, settings: TopicSettings, *, now_ms: int) -> PreparedBatch:
    """Validate a batch completely and apply the topic's codec.

    Runs on a thread, which takes ownership of `batch`.
    """
    header = read_header(batch)
    result = check_client_batch(batch, header, settings=settings, now_ms=now_ms)
    content, header = corrected(batch, header, result, settings)
    content, header = under_topic_codec(content, header, settings)
    return PreparedBatch(content=content, header=header, settings=settings)


def check_prepared(prepared: PreparedBatch, settings: TopicSettings, *, now_ms: int) -> None:
    """Check the batch against changed settings: size, timestamps, cleanup policy."""
    if prepared.settings is settings:
        return
    _check_size(prepared.header.size_bytes, settings)
    if settings.is_compacted and not prepared.settings.is_compacted:
        check_keys(prepared.content, prepared.header)
    check_timestamps(prepared.content, prepared.header, settings, now_ms)


def under_topic_codec(
    batch: bytearray | memoryview, header: BatchHeader, settings: TopicSettings
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Return the batch compressed with the topic's codec (PV-5).

    The size limits are checked again, because another codec may compress worse (PV-1).
    """
    codec = wanted_codec(header, settings)
    if codec is None:
        return batch, header
    again = bytearray(recompress(batch, codec, compression_level(codec, settings)))
    _check_size(len(again), settings)
    return again, read_header(again)


def _check_size(size_bytes: int, settings: TopicSettings) -> None:
    if size_bytes > settings.max_message_bytes:
        raise BatchTooLarge(
            f"a record batch of {size_bytes} bytes under compression.type="
            f"{settings.compression_type} is more than the topic's max.message.bytes "
            f"({settings.max_message_bytes})"
        )
    if size_bytes > settings.segment_bytes:
        raise BatchListTooLarge(f"{size_bytes} bytes, a segment holds {settings.segment_bytes}")
