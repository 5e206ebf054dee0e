"""What was wrong with a record that could not be taken, in a sentence.

What a reader would get wrong: a record is looked at only after the attempt to take it has failed,
so that the many good ones do not pay for the few bad ones.
"""

from collections.abc import Iterable, Mapping
from reprlib import repr as shortened
from typing import Any

from headwater.client.argument_checks import topic_name, whole_number
from headwater.client.errors import (
    InvalidArgument,
    InvalidTimestamp,
    KafkaError,
    SerializationFailed,
)
from headwater.client.producer.producer_settings import ProducerSettings


def timestamp_ms(given: object) -> int:
    """A timestamp that is no plain number above zero: a number of another type, or a mistake."""
    number = whole_number(
        given, "a timestamp, which is milliseconds such as int(time.time() * 1000),"
    )
    if number < 0:
        raise InvalidTimestamp(f"a timestamp is milliseconds since 1970, and not {number}")
    return number


def check_record(
    settings: ProducerSettings,
    topic: object,
    value: object,
    key: object,
    partition: object,
    timestamp: object,
    headers: object,
) -> None:
    """Raise what is wrong with it; nothing, if it is not the record's fault."""
    try:
        topic_name(topic)
        if settings.value_serializer is None:
            _check_bytes(value, "value")
        if settings.key_serializer is None:
            _check_bytes(key, "key")
        if partition is not None:
            whole_number(partition, "a partition", least=0)
        if timestamp is not None:
            timestamp_ms(timestamp)
        if headers is not None:
            _check_headers(headers)
    except KafkaError as wrong:
        # Where it was first noticed, deep inside, helps nobody.
        raise wrong from None


def _check_bytes(given: object, what: str) -> None:
    if given is not None and not _is_bytes(given):
        raise InvalidArgument(
            f"a {what} is bytes, and not {shortened(given)}; {what}.serializer makes bytes of "
            "other things"
        )


def check_serialized(made: object, what: str) -> None:
    """Raise if a serializer has made something that is neither bytes nor None, a tombstone."""
    if made is not None and not _is_bytes(made):
        raise SerializationFailed(
            f"{what}.serializer must return bytes, and not {shortened(made)}; "
            "a str becomes bytes by its encode()"
        )


def check_headers(given: object) -> None:
    """Raise what is wrong with headers, if anything is."""
    try:
        _check_headers(given)
    except KafkaError as wrong:
        raise wrong from None


def _check_headers(given: object) -> None:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(f"headers are pairs, and not {shortened(given)}")
    for pair in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument(
                f"a header is a pair of a str and bytes, and not {shortened(pair)}"
            )
        if pair[1] is not None and not _is_bytes(pair[1]):
            raise InvalidArgument(
                f"the value of header {pair[0]!r} is bytes, and not {shortened(pair[1])}"
            )


def _is_bytes(given: Any) -> bool:
    try:
        memoryview(given)
    except TypeError:
        return False
    return True
