"""Find idle connections without a timer for each (connections.max.idle.ms).

Note: an active connection is not moved. It only records the time and keeps its place; when that
place is due, the recorded time tells whether the connection is really idle, or when to check again.
"""

from typing import Generic, Protocol, TypeVar


class CoarseClock:
    """The time of the last sweep, where a better one is not needed."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms


class Active(Protocol):
    """An object that knows when it was last active."""

    @property
    def active_ms(self) -> int: ...


A = TypeVar("A", bound=Active)


class IdleExpiryManager(Generic[A]):
    """Connections by the time of their next check."""

    def __init__(self, idle_ms: int, *, grain_ms: int = 1_000) -> None:
        self._idle_ms = idle_ms
        self._grain_ms = grain_ms
        self._places: dict[int, dict[A, None]] = {}
        self._place_of: dict[A, int] = {}

    def add(self, watched: A) -> None:
        """Watch a connection; a negative idle time watches none."""
        if self._idle_ms >= 0:
            self._put(watched)

    def remove(self, watched: A) -> None:
        place = self._place_of.pop(watched, None)
        if place is not None:
            members = self._places[place]
            del members[watched]
            if not members:
                del self._places[place]

    def expired(self, now_ms: int) -> list[A]:
        """Return the connections that were idle for too long. They stay watched."""
        idle: list[A] = []
        for place in sorted(self._places):
            if place * self._grain_ms > now_ms:
                break
            for watched in list(self._places[place]):
                if watched.active_ms + self._idle_ms <= now_ms:
                    idle.append(watched)
                else:
                    self.remove(watched)
                    self._put(watched)
        return idle

    def _put(self, watched: A) -> None:
        due_ms = watched.active_ms + self._idle_ms
        place = -(-due_ms // self._grain_ms)
        self._place_of[watched] = place
        self._places.setdefault(place, {})[watched] = None
