"""What older versions said differently, not only shorter.

Most versions differ by fields that come and go, which a shape declares. Where the meaning changed
(one group became many, a name became an id), the older versions have a shape of their own, and
the message names it: `older = {7: OffsetFetchRequestUpToV7}`.
"""

from typing import ClassVar, Protocol, Self, TypeVar

from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey

T = TypeVar("T")
M = TypeVar("M")


class Message(Protocol):
    """A request or a response, in the one shape that everything above `wire` knows."""

    api: ClassVar[ApiKey]


class OlderMessage(Protocol[M]):
    """The same message as some first versions of its API put it."""

    def lift(self) -> M: ...

    @classmethod
    def lower(cls, message: M) -> Self: ...


def older_class(cls: type[M], version: int) -> type[OlderMessage[M]] | None:
    """The shape that the version has instead of the message's own, if it has one."""
    older: dict[int, type[OlderMessage[M]]] = getattr(cls, "older", {})
    for last, shape in older.items():
        if version <= last:
            return shape
    return None


def the_only(items: tuple[T, ...]) -> T:
    """The one item of a list which older versions could not have longer."""
    if len(items) != 1:
        raise UnsupportedInVersion(f"this version speaks of one at a time, not of {len(items)}")
    return items[0]
