"""Parse the topics of a classic consumer's subscription.

A broker passes subscriptions on without parsing them (GR-15); only offset expiry needs their
topics. Every version of the format starts like the first:

    version (int16)  count (int32)  { length (int16)  name }  ...
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_INT16: Final = Struct(">h")
_HEAD: Final = Struct(">hi")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions, or None if one cannot be parsed."""
    topics: set[str] = set()
    for subscription in subscriptions:
        named = _topics_of(subscription)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str] | None:
    try:
        version, count = _HEAD.unpack_from(subscription)
        if version < 0 or count < 0:
            return None
        topics = []
        position = _HEAD.size
        for _ in range(count):
            (length,) = _INT16.unpack_from(subscription, position)
            begin = position + _INT16.size
            position = begin + length
            if length < 0 or position > len(subscription):
                return None
            topics.append(subscription[begin:position].decode())
    except (struct_error, UnicodeDecodeError):
        return None
    return topics
