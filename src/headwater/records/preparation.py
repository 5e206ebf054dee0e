"""The dear part of accepting a client's batch, so that it can be done off the loop beforehand.

Two things open a batch: another codec than the topic wants (PV-5), and records without a key that
a compacted topic refuses (CP-8), where they are compressed. Both take milliseconds per megabyte.

    on the loop      asks `needs_preparation`, which looks at a few bytes, and copies the batch
    on a thread      runs `prepare_batch`, which refuses what an append would refuse
    on the loop      appends the prepared batch, after `check_prepared`

What a reader would get wrong: settings may change in between, so a prepared batch is a promise
about the past. `check_prepared` looks at it once more under the settings of now, and only what they
have added is done then, here and now. Whether a producer repeats itself is asked at the append.
"""

from dataclasses import dataclass

from headwater.model.failures import BatchListTooLarge, BatchTooLarge
from headwater.model.topic_settings import TopicSettings
from headwater.records.header import (
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
from headwater.records.validation import (
    check_client_batch,
    check_keys,
    check_timestamps,
    compression_level,
    recompress,
    topic_codec,
    wanted_codec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch:
    """A client's batch, checked and under the codec that its topic wanted then."""

    content: bytearray | memoryview
    header: BatchHeader
    has_checked_keys: bool


def may_need_preparation(settings: TopicSettings) -> bool:
    """Whether any batch could: ask this once for a topic's settings, and not for each batch."""
    return topic_codec(settings) is not None or settings.is_compacted


def needs_preparation(batch: Buffer, settings: TopicSettings) -> bool:
    """Whether an append of this batch would open its records. Judges nothing."""
    if len(batch) < HEADER_BYTES or batch[MAGIC_POSITION] != MAGIC:
        return False
    flags = batch[FLAGS_POSITION]
    codec = flags & CODEC_MASK
    if flags & CONTROL_FLAG or codec > Codec.ZSTD:
        return False
    wanted = topic_codec(settings)
    if wanted is not None and wanted != codec:
        return True
    return codec != Codec.NONE and settings.is_compacted


def prepare_batch(batch: bytearray, settings: TopicSettings, *, now_ms: int) -> PreparedBatch:
    """Check a batch in full and bring it under the topic's codec. For a thread: `batch` is given
    away. Raises the `BatchError` that an append would raise.
    """
    header = read_header(batch)
    check_client_batch(batch, header, settings=settings, now_ms=now_ms)
    content, header = under_topic_codec(batch, header, settings)
    return PreparedBatch(content=content, header=header, has_checked_keys=settings.is_compacted)


def check_prepared(prepared: PreparedBatch, settings: TopicSettings, *, now_ms: int) -> None:
    """What may have changed since: limits, the window of timestamps, and the cleanup policy."""
    _check_size(prepared.header.size_bytes, settings)
    if settings.is_compacted and not prepared.has_checked_keys:
        check_keys(prepared.content, prepared.header)
    check_timestamps(prepared.content, prepared.header, settings, now_ms)


def under_topic_codec(
    batch: bytearray | memoryview, header: BatchHeader, settings: TopicSettings
) -> tuple[bytearray | memoryview, BatchHeader]:
    """The same records under the codec that the topic wants; the batch itself if it is so (PV-5).

    The limits count again, for other codecs may pack worse (PV-1).
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
