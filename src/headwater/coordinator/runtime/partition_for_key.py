"""Partition of a coordinator's topic for a group id or transactional id.

Uses the hash of Java strings over UTF-16, so that other brokers, including Kafka's, find the
records in the same partition.
"""

from functools import lru_cache
from typing import Final

_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1
_SIGN: Final = 1 << (_BITS - 1)
_CACHE_SIZE: Final = 4_096
_MAX_CACHED_LENGTH: Final = 128


def partition_for(key: str, partition_count: int) -> int:
    hash_of = _cached_hash if len(key) <= _MAX_CACHED_LENGTH else _java_hash
    return _absolute(hash_of(key)) % partition_count


@lru_cache(_CACHE_SIZE)
def _cached_hash(text: str) -> int:
    """Cached, since every request of a member needs it."""
    return _java_hash(text)


def _java_hash(text: str) -> int:
    raw = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & _MASK
    return (result ^ _SIGN) - _SIGN


def _absolute(number: int) -> int:
    """Kafka maps the smallest integer, which has no absolute value in 32 bits, to 0."""
    return 0 if number == -_SIGN else abs(number)
