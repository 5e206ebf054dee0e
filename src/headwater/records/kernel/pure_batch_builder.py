"""The pure twin of the kernel's `BatchBuilder`: a batch that grows record by record.

Like all of the twin it serves where nothing is compiled, and says what the compiled one means.
"""

from headwater.common.exceptions import BatchTooLarge
from headwater.records.batch_header import HEADER_BYTES, Buffer
from headwater.records.varints import write_varint

_LENGTH_MAX = 2**31 - 1


class BatchBuilder:
    """Records in, one buffer out, with room for the header in front."""

    __slots__ = (
        "_buffer",
        "_is_closed",
        "_limit_bytes",
        "base_timestamp",
        "count",
        "max_timestamp",
        "size_bytes",
    )

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray(HEADER_BYTES)
        self._is_closed = False
        self.size_bytes = HEADER_BYTES
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, tail: bytes = b"\0"
    ) -> int:
        """The record's number in the batch; -1 when the batch is full or closed.

        The first record is taken whatever its size. `tail` is the count of headers and the
        headers, encoded.
        """
        if self._is_closed:
            return -1
        delta = timestamp - self.base_timestamp if self.count else 0
        body = b"".join(
            (
                b"\0",
                write_varint(delta),
                write_varint(self.count),
                _varbytes(key),
                _varbytes(value),
                tail,
            )
        )
        record = write_varint(len(body)) + body
        if self.count and self.size_bytes + len(record) > self._limit_bytes:
            return -1
        if self.size_bytes + len(record) > _LENGTH_MAX:
            raise BatchTooLarge("a record of more than 2 GiB")
        self._buffer += record
        self.size_bytes += len(record)
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return self.count - 1

    def close(self) -> None:
        """Take no more records."""
        self._is_closed = True

    def take(self) -> bytearray:
        """The header's 61 bytes, all zero, and the records. Ends the builder."""
        self._is_closed = True
        taken, self._buffer = self._buffer, bytearray()
        return taken


def _varbytes(content: Buffer | None) -> bytes:
    return write_varint(-1) if content is None else write_varint(len(content)) + bytes(content)
