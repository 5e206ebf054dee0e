"""Find out what is wrong with a record that could not be sent.

Note: a record is checked only after the attempt to send it has failed, so that valid records do
not pay for the checks.
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
    """Check a timestamp that is not a plain positive int."""
    number = whole_number(given, "timestamp (milliseconds, such as int(time.time() * 1000))")
    if number < 0:
        raise InvalidTimestamp(f"timestamp must be milliseconds since 1970, not {number}")
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
    """Raise the problem of the record, if it has one."""
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
        # The original traceback, deep inside, would not help.
        raise wrong from None


def _check_bytes(given: object, what: str) -> None:
    if given is not None and not _is_bytes(given):
        raise InvalidArgument(
            f"{what} must be bytes, not {shortened(given)}; set {what}.serializer for other types"
        )


def check_serialized(made: object, what: str) -> None:
    """Raise if a serializer returned neither bytes nor None (a tombstone)."""
    if made is not None and not _is_bytes(made):
        raise SerializationFailed(
            f"{what}.serializer must return bytes, not {shortened(made)}; use str.encode() for a "
            "str"
        )


def check_headers(given: object) -> None:
    """Raise the problem of headers, if there is one."""
    try:
        _check_headers(given)
    except KafkaError as wrong:
        raise wrong from None


def _check_headers(given: object) -> None:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgument(f"headers must be pairs, not {shortened(given)}")
    for pair in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument(
                f"a header must be a pair of str and bytes, not {shortened(pair)}"
            )
        if pair[1] is not None and not _is_bytes(pair[1]):
            raise InvalidArgument(
                f"the value of header {pair[0]!r} must be bytes, not {shortened(pair[1])}"
            )


def _is_bytes(given: Any) -> bool:
    try:
        memoryview(given)
    except TypeError:
        return False
    return True
