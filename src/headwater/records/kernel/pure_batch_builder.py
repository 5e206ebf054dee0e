"""Pure Python `BatchBuilder`: a batch that grows record by record.

Used if the kernel is not compiled, and the specification of the compiled class.
"""

from headwater.common.exceptions import BatchTooLarge
from headwater.records.batch_header import HEADER_BYTES, Buffer
from headwater.records.varints import write_varint

_LENGTH_MAX = 2**31 - 1


class BatchBuilder:
    """Appends records to one buffer, with space for the header in front."""

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
        """Append a record; return its index, or -1 if the batch is full or closed.

        The first record is accepted whatever its size. `tail` is the encoded header count and
        headers.
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
        """Refuse further records."""
        self._is_closed = True

    def take(self) -> bytearray:
        """Return the buffer: 61 zero bytes for the header, then records. Ends the builder."""
        self._is_closed = True
        taken, self._buffer = self._buffer, bytearray()
        return taken


def _varbytes(content: Buffer | None) -> bytes:
    return write_varint(-1) if content is None else write_varint(len(content)) + bytes(content)
