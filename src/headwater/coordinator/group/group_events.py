"""Events of groups besides requests and timers.

A separate module, because a broker sends them always but loads groups only when there are some.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics were deleted, and with them all offsets committed to them (OE-2)."""

    topics: tuple[str, ...]
