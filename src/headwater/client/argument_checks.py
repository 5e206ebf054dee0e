"""Check arguments of client calls, so that mistakes raise clear errors.

    partitions must be an integer, not '3'

Note: nothing here runs per record. A topic is checked on first use, and a record only after it
could not be encoded (`producer/record_validation.py`).
"""

from collections.abc import Iterable
from math import isfinite
from numbers import Real
from operator import index
from reprlib import repr as shortened
from typing import SupportsIndex, TypeVar

from headwater.client.errors import InvalidArgument, InvalidTopic
from headwater.common.ids import TopicPartition
from headwater.common.topic_names import topic_name_error

T = TypeVar("T")


def topic_name(given: object) -> str:
    """A valid topic name."""
    if not isinstance(given, str):
        raise InvalidTopic(f"a topic name must be a str, not {shortened(given)}")
    why = topic_name_error(given)
    if why is not None:
        raise InvalidTopic(why)
    return given


def several(given: Iterable[T], what: str) -> list[T]:
    """A list from any iterable; a str is not taken for a list of characters."""
    if isinstance(given, str | bytes | TopicPartition) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{what} must be a list, not {shortened(given)}")
    return list(given)


def topic_partition(given: object) -> TopicPartition:
    """A partition, from a `TopicPartition` or any pair of topic and number."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(_no_place(given))
    pair = tuple(given)
    if len(pair) != 2:
        raise InvalidArgument(_no_place(given))
    topic, partition = pair
    return TopicPartition(topic_name(topic), whole_number(partition, "a partition", least=0))


def topic_partitions(given: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [topic_partition(each) for each in several(given, "partitions")]


def whole_number(given: object, what: str, *, least: int | None = None) -> int:
    """An integer of any integer type."""
    if not isinstance(given, SupportsIndex):
        raise InvalidArgument(f"{what} must be an integer, not {shortened(given)}")
    number = index(given)
    if least is not None and number < least:
        raise InvalidArgument(f"{what} must be at least {least}, not {number}")
    return number


def limit_ms(timeout: float | None, default_ms: int) -> int:
    """Convert a timeout in seconds to milliseconds."""
    if timeout is None:
        return default_ms
    if not isinstance(timeout, int | float | Real) or not isfinite(timeout):
        raise InvalidArgument(f"a timeout must be a number of seconds, not {timeout!r}")
    return int(timeout * 1000)


def _no_place(given: object) -> str:
    return f"a partition must be TopicPartition(topic, partition), not {shortened(given)}"
