"""Which partition of a coordinator's topic looks after a group or a transactional id.

The hash is that of Java's strings, over UTF-16, because another broker, or Kafka itself, must find
in the same partition what this one wrote there.
"""

from functools import lru_cache
from typing import Final

_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1
_SIGN: Final = 1 << (_BITS - 1)
_MOST_REMEMBERED: Final = 4_096
_LONGEST_REMEMBERED: Final = 128


def partition_for(key: str, partition_count: int) -> int:
    hash_of = _remembered_hash if len(key) <= _LONGEST_REMEMBERED else _java_hash
    return _absolute(hash_of(key)) % partition_count


@lru_cache(_MOST_REMEMBERED)
def _remembered_hash(text: str) -> int:
    """Each request of a member asks for it again."""
    return _java_hash(text)


def _java_hash(text: str) -> int:
    raw = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & _MASK
    return (result ^ _SIGN) - _SIGN


def _absolute(number: int) -> int:
    """Of the smallest number, which has no counterpart in 32 bits, Kafka makes 0."""
    return 0 if number == -_SIGN else abs(number)
