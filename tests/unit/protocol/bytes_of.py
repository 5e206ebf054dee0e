"""Messages as plain bytes for comparison."""

from typing import TypeVar

from headwater.protocol.codec import read, write
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part

M = TypeVar("M", bound=Message)


def joined(parts: list[Part]) -> bytes:
    """Join the parts; none of them may be a file range."""
    whole = bytearray()
    for part in parts:
        assert isinstance(part, bytes | bytearray | memoryview)
        whole += part
    return bytes(whole)


def written(message: Message, version: int) -> bytes:
    return joined(write(message, version))


def read_bytes(cls: type[M], version: int, body: bytes) -> M:
    return read(cls, version, memoryview(body))
