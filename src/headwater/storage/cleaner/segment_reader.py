"""Read a segment sequentially in chunks of whole batches and bounded memory.

The buffer grows past its setting only for a single larger batch. Any corruption is raised as
`CorruptBatch` with its position, and so is a file that is shorter than expected.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import NamedTuple

from headwater.common.exceptions import BatchError, CorruptBatch
from headwater.records.batch_header import HEADER_BYTES, BatchHeader
from headwater.records.kernel import scan
from headwater.storage.io.disk import Disk, File
from headwater.storage.log.batch_walk import header_at

Throttle = Callable[[int], None]
"""Called with the number of bytes of each read or write; may sleep, to throttle."""


class Chunk(NamedTuple):
    """Contiguous whole batches from the start of `buffer`."""

    buffer: bytes
    headers: list[BatchHeader]
    position: int


def unthrottled(_: int) -> None:
    """Do not throttle."""


def read_chunks(
    disk: Disk,
    path: PurePath,
    size_bytes: int,
    io_buffer_bytes: int,
    throttle: Throttle = unthrottled,
) -> Iterator[Chunk]:
    """Yield all batches in the first `size_bytes` of a log file."""
    file = disk.open(path)
    try:
        position = 0
        while position < size_bytes:
            with corruption_at(path, position):
                chunk = _read_chunk(file, position, size_bytes, io_buffer_bytes)
            end = position + len(chunk.buffer)
            throttle(len(chunk.buffer))
            yield chunk
            position = end
    finally:
        file.close()


@contextmanager
def corruption_at(path: PurePath, position: int) -> Iterator[None]:
    """Add the position in the log to a `BatchError`."""
    try:
        yield
    except BatchError as error:
        raise CorruptBatch(f"{path.name}, position {position}: {error}") from error


def _read_chunk(file: File, position: int, size_bytes: int, io_buffer_bytes: int) -> Chunk:
    left = size_bytes - position
    buffer = file.read(min(max(io_buffer_bytes, HEADER_BYTES), left), position)
    headers, end = scan(buffer, 0, len(buffer))
    if not headers:
        buffer = file.read(header_at(buffer, 0, left).size_bytes, position)
        headers, end = scan(buffer, 0, len(buffer))
        if not headers:
            raise CorruptBatch("the file ends inside a batch")
    return Chunk(buffer[:end] if end < len(buffer) else buffer, headers, position)
