"""A record batch of the producer, and the outcome of its records.

Callers append records; the sender does the rest.

Note: a batch is sealed (compressed, with header and CRC) when it is first sent; after that only its
producer fields change. A retry must have the same records, or the broker could not detect the
duplicate.
"""

import struct
import threading
from collections.abc import Callable
from typing import Final

from headwater.client.errors import KafkaError
from headwater.client.producer.record_future import RecordFuture
from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE
from headwater.records.batch_building import encode_headers
from headwater.records.batch_header import (
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    read_header,
)
from headwater.records.batch_sealing import renew_crc
from headwater.records.checksum import write_crc
from headwater.records.compression import compress
from headwater.records.kernel import BatchBuilder
from headwater.records.record_reader import read_records

NO_OFFSET: Final = -1
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_POSITION: Final = 21
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_POSITION: Final = 43

Callback = Callable[[RecordFuture], object]


class ProducerBatch:
    """One batch. Fields that callers use are guarded by the accumulator's lock."""

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "_records_crc",
        "_sealed",
        "append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "codec",
        "count",
        "created_ms",
        "error",
        "is_done",
        "is_due",
        "ordinal",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "reserved_bytes",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        builder: BatchBuilder | None,
        lock: threading.Lock,
        created_ms: int,
        reserved_bytes: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.builder = builder
        self.created_ms = created_ms
        self.reserved_bytes = reserved_bytes
        self.attempts = 0
        self.count = 0
        self.producer_id: int = NO_PRODUCER
        self.producer_epoch = NO_EPOCH
        self.base_sequence = NO_SEQUENCE
        # Counts the batches sent to its partition.
        self.ordinal = 0
        self.is_due = False
        self.is_done = False
        self.error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.append_time_ms = -1
        self.parts: list[ProducerBatch] | None = None
        # For a part of a split batch: the codec of the whole. None: the producer's setting.
        self.codec: Codec | None = None
        self._lock = lock
        self._sealed: bytearray | memoryview | None = None
        # CRC of the records, if known; then the batch CRC needs no pass over the records.
        self._records_crc: int | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[tuple[int, RecordFuture, Callback]] | None = None

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def size_bytes(self) -> int:
        """Size in a request; before it is sealed, an upper bound."""
        if self._sealed is not None:
            return len(self._sealed)
        assert self.builder is not None
        return self.builder.size_bytes

    @property
    def record_count(self) -> int:
        """The number of records, also while the batch is open."""
        return self.count if self.builder is None else self.builder.count

    # Outcome.

    def wait(self, timeout_s: float | None) -> bool:
        """Block until the batch is completed or split; False after the timeout."""
        with self._lock:
            if self.is_done or self.parts is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout_s)

    def add_callback(self, index: int, future: RecordFuture, callback: Callback) -> bool:
        """Register a callback; False if the batch is done and the caller must call it."""
        with self._lock:
            if self.is_done:
                return False
            if self.parts is None:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append((index, future, callback))
                return True
        part, rest = self.split_with(index)
        return part.add_callback(rest, future, callback)

    def complete(
        self, error: KafkaError | None, base_offset: int = NO_OFFSET, append_time_ms: int = -1
    ) -> list[tuple[RecordFuture, Callback]]:
        """Complete the batch once: wake waiting threads, return the callbacks to call."""
        with self._lock:
            assert not self.is_done
            self.error = error
            self.base_offset = base_offset
            self.append_time_ms = append_time_ms
            self.is_done = True
            self._sealed = self.builder = None
            called, self._callbacks = self._callbacks, None
        if self._event is not None:
            self._event.set()
        return [(future, callback) for _, future, callback in called] if called else []

    # Content.

    def close(self) -> None:
        """Take no more records."""
        if self.builder is not None:
            self.builder.close()
            self.count = self.builder.count

    def adopt(
        self, encoded: bytearray | memoryview, count: int, *, records_crc: int | None = None
    ) -> None:
        """Take over a batch that was encoded elsewhere."""
        self._sealed = encoded
        self._records_crc = records_crc
        self.count = count

    def seal(self, codec: Codec, level: int | None) -> None:
        """Compress the records and write the header, unless done."""
        if self._sealed is not None:
            return
        assert self.builder is not None
        codec, level = (codec, level) if self.codec in (None, codec) else (self.codec, None)
        builder = self.builder
        content = builder.take()
        if codec is not Codec.NONE:
            packed = compress(codec, memoryview(content)[HEADER_BYTES:], level)
            content = bytearray(HEADER_BYTES + len(packed))
            content[HEADER_BYTES:] = packed
        header = BatchHeader(
            base_offset=0,
            length=len(content) - LENGTH_END,
            leader_epoch=NO_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=codec,
            last_offset_delta=builder.count - 1,
            base_timestamp=builder.base_timestamp,
            max_timestamp=builder.max_timestamp,
            producer_id=NO_PRODUCER,
            producer_epoch=NO_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=builder.count,
        )
        HEADER.pack_into(content, 0, *header)
        self._sealed = content
        self.builder = None

    def stamped(self, *, is_transactional: bool) -> memoryview:
        """The bytes to send, with the current producer fields and CRC."""
        content = self._sealed
        assert content is not None
        if is_transactional:
            (attributes,) = _ATTRIBUTES.unpack_from(content, _ATTRIBUTES_POSITION)
            _ATTRIBUTES.pack_into(content, _ATTRIBUTES_POSITION, attributes | TRANSACTIONAL_FLAG)
        _PRODUCER.pack_into(
            content, _PRODUCER_POSITION, self.producer_id, self.producer_epoch, self.base_sequence
        )
        if self._records_crc is None:
            write_crc(content, 0, len(content))
        else:
            renew_crc(content, self._records_crc)
        return memoryview(content)

    def split(self, limit_bytes: int) -> list["ProducerBatch"]:
        """Split into smaller batches (KIP-126 style); callbacks move with their records."""
        assert self._sealed is not None
        parts: list[ProducerBatch] = []
        builder = None
        header = read_header(self._sealed)
        for record in read_records(self._sealed, header):
            tail = encode_headers(record.headers)
            if builder is not None:
                if builder.append(record.timestamp, record.key, record.value, tail) >= 0:
                    continue
                parts[-1].close()
            builder = BatchBuilder(limit_bytes)
            builder.append(record.timestamp, record.key, record.value, tail)
            parts.append(self._part(builder, header.codec))
        parts[-1].close()
        with self._lock:
            self.parts = parts
            # The parts have the records; a future that references this batch needs no bytes.
            self._sealed = None
            callbacks, self._callbacks = self._callbacks, None
        for index, future, callback in callbacks or ():
            part, rest = self.split_with(index)
            part.add_callback(rest, future, callback)
        if self._event is not None:
            self._event.set()
        return parts

    def split_with(self, index: int) -> tuple["ProducerBatch", int]:
        """The part with a record, and the record's index in it."""
        assert self.parts is not None
        for part in self.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise AssertionError("a part has every record")

    def _part(self, builder: BatchBuilder, codec: Codec) -> "ProducerBatch":
        part = ProducerBatch(
            self.topic,
            self.partition,
            builder=builder,
            lock=self._lock,
            created_ms=self.created_ms,
            # The first part takes over the reserved memory.
            reserved_bytes=self.reserved_bytes,
        )
        part.codec = codec
        self.reserved_bytes = 0
        return part
