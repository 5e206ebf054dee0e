"""Message classes for older versions that differ in more than fields.

Most versions differ by fields that come and go, which a message class declares. If the meaning
changed (one group became many, a name became an id), the older versions have a class of their own,
which the message names: `older = {7: OffsetFetchRequestUpToV7}`.
"""

from typing import ClassVar, Protocol, Self, TypeVar

from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey

T = TypeVar("T")
M = TypeVar("M")


class Message(Protocol):
    """Request or response in the one class that all other layers use."""

    api: ClassVar[ApiKey]


class OlderMessage(Protocol[M]):
    """The same message in the form of its API's first versions."""

    def lift(self) -> M: ...

    @classmethod
    def lower(cls, message: M) -> Self: ...


def older_class(cls: type[M], version: int) -> type[OlderMessage[M]] | None:
    """Return the class of an older version, if it has its own."""
    older: dict[int, type[OlderMessage[M]]] = getattr(cls, "older", {})
    for last, shape in older.items():
        if version <= last:
            return shape
    return None


def the_only(items: tuple[T, ...]) -> T:
    """Return the only item of a list; UnsupportedInVersion if there are several."""
    if len(items) != 1:
        raise UnsupportedInVersion(f"this version allows one item, not {len(items)}")
    return items[0]
