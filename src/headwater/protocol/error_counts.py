"""Find the error codes in a response, for the error metrics.

A response may have an error at the top level, in its items, or in both; the fields are found once
per message class from its declaration.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.protocol.older_versions import Message
from headwater.protocol.schema import wire_fields

# Some messages have further error fields, which repeat the same error.
_ERROR: Final = "error_code"


class _Places(NamedTuple):
    """Whether a message has an error code, and which of its fields contain some."""

    has_error: bool
    parts: tuple[tuple[str, bool], ...]


def error_counts(message: Message) -> Iterator[ErrorCode]:
    """Yield every error code in a message, at any depth, except NONE."""
    return _errors_in(message)


def _errors_in(part: object) -> Iterator[ErrorCode]:
    cls: type = type(part)
    places = _places(cls)
    if places.has_error:
        code = getattr(part, _ERROR)
        if code:
            yield code
    for name, is_repeated in places.parts:
        value = getattr(part, name)
        for each in value or () if is_repeated else (value,):
            if each is not None:
                yield from _errors_in(each)


@cache
def _places(cls: type) -> _Places:
    fields = wire_fields(cls)
    parts = [
        (field.name, field.repeated)
        for field in fields
        if isinstance(field.kind, type) and any(_places(field.kind))
    ]
    return _Places(any(field.name == _ERROR for field in fields), tuple(parts))
