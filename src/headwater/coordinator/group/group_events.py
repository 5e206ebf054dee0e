"""What groups hear besides requests and timers. Apart from them, since a broker tells it always
and loads groups only when there are some.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics are gone, and so are the offsets that anybody committed to them (OE-2)."""

    topics: tuple[str, ...]
