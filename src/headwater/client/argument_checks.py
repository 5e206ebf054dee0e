"""What callers hand in, looked at where it enters, so that a mistake is told in one sentence.

    partitions must be a whole number, and not '3'

What a reader would get wrong: none of this is on the path of every record. A topic is looked at
when it is new, and a record when it could not be taken (`producer/bad_records.py`).
"""

from collections.abc import Iterable
from math import isfinite
from numbers import Real
from operator import index
from reprlib import repr as shortened
from typing import SupportsIndex, TypeVar

from headwater.client.errors import InvalidArgument, InvalidTopic
from headwater.common.ids import TopicPartition
from headwater.common.topic_names import why_invalid

T = TypeVar("T")


def topic_name(given: object) -> str:
    """The name of a topic, if it can be one."""
    if not isinstance(given, str):
        raise InvalidTopic(f"a topic is named by a str, and not by {shortened(given)}")
    why = why_invalid(given)
    if why is not None:
        raise InvalidTopic(why)
    return given


def several(given: Iterable[T], what: str) -> list[T]:
    """Several of something. One text is not taken for the list of its characters."""
    if isinstance(given, str | bytes | TopicPartition) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{what} must be a list, and not {shortened(given)}")
    return list(given)


def place(given: object) -> TopicPartition:
    """A partition, as a `TopicPartition` or as any pair of a topic and a number."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(_no_place(given))
    pair = tuple(given)
    if len(pair) != 2:
        raise InvalidArgument(_no_place(given))
    topic, partition = pair
    return TopicPartition(topic_name(topic), whole_number(partition, "a partition", least=0))


def places(given: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Several partitions."""
    return [place(each) for each in several(given, "partitions")]


def whole_number(given: object, what: str, *, least: int | None = None) -> int:
    """A whole number of any type that can count."""
    if not isinstance(given, SupportsIndex):
        raise InvalidArgument(f"{what} must be a whole number, and not {shortened(given)}")
    number = index(given)
    if least is not None and number < least:
        raise InvalidArgument(f"{what} must be at least {least}, and not {number}")
    return number


def limit_ms(timeout: float | None, default_ms: int) -> int:
    """How long a call may take, which callers give in seconds."""
    if timeout is None:
        return default_ms
    if not isinstance(timeout, int | float | Real) or not isfinite(timeout):
        raise InvalidArgument(f"a timeout must be a number of seconds, and not {timeout!r}")
    return int(timeout * 1000)


def _no_place(given: object) -> str:
    return f"a partition is named by TopicPartition(topic, number), and not by {shortened(given)}"
