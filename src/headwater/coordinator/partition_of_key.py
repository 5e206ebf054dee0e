"""Which partition of a coordinator's topic looks after a group or a transactional id.

The hash is that of Java's strings, over UTF-16, because another broker, or Kafka itself, must find
in the same partition what this one wrote there.
"""

from typing import Final

_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1
_SIGN: Final = 1 << (_BITS - 1)


def partition_of_key(key: str, partition_count: int) -> int:
    return _absolute(_java_hash(key)) % partition_count


def _java_hash(text: str) -> int:
    raw = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & _MASK
    return (result ^ _SIGN) - _SIGN


def _absolute(number: int) -> int:
    """Of the smallest number, which has no counterpart in 32 bits, Kafka makes 0."""
    return 0 if number == -_SIGN else abs(number)
