"""Keep meters of recently active clients, and drop idle ones.

Note: client ids are free to invent, so the number of tracked clients is bounded as well as the idle
time. The least recently active one is dropped first.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

IDLE_MS: Final = 3_600_000
"""Kafka (3.9) removes the sensors of a client after an hour without requests."""

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")


@dataclass(slots=True)
class _Entry(Generic[M]):
    used_ms: int
    meter: M


class RecentClients(Generic[K, M]):
    """One meter per recently used key, least recently used first."""

    def __init__(self, new_meter: Callable[[], M], *, limit: int, idle_ms: int = IDLE_MS) -> None:
        self._new_meter = new_meter
        self._most = limit
        self._idle_ms = idle_ms
        self._entries: OrderedDict[K, _Entry[M]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[K, M]]:
        for key, entry in self._entries.items():
            yield key, entry.meter

    def of(self, key: K, now_ms: int) -> M:
        """Return the meter of a key and mark it as used."""
        entry = self._entries.get(key)
        if entry is None:
            self.expire(now_ms)
            while len(self._entries) >= self._most:
                self._entries.popitem(last=False)
            entry = self._entries[key] = _Entry(now_ms, self._new_meter())
        else:
            self._entries.move_to_end(key)
            entry.used_ms = now_ms
        return entry.meter

    def expire(self, now_ms: int) -> None:
        """Remove meters that have been idle for too long."""
        entries = self._entries
        while entries:
            oldest = next(iter(entries))
            if now_ms - entries[oldest].used_ms < self._idle_ms:
                return
            del entries[oldest]
