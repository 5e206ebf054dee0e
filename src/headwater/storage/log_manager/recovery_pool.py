"""Load several logs at once after a crash (num.recovery.threads.per.data.dir).

Loading a log reads and checks its unflushed segments and changes only its own files, so logs can be
loaded side by side. What concerns the whole directory, such as its checkpoints, is done with the
loaded logs in order, on the thread that opens the directories. `recovery_threads` has the pool of a
running broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Loads(Protocol[T_co]):
    """Loads of one directory in progress."""

    def take(self) -> T_co:
        """Return the next result in order, or raise what its load raised."""

    def close(self) -> None:
        """Wait for the loads that run; drop the others. May be called twice."""


class RecoveryPool(Protocol):
    """Loads the logs of a directory."""

    @property
    def is_concurrent(self) -> bool:
        """Whether loads run on other threads, and so need a cache of open files each."""

    def begin(self, loads: Sequence[Callable[[], T]]) -> Loads[T]: ...


class InlineRecovery:
    """Loads each log when its result is taken: for tools and simulations."""

    is_concurrent = False

    def begin(self, loads: Sequence[Callable[[], T]]) -> Loads[T]:
        return _InlineLoads(loads)


class _InlineLoads(Generic[T]):
    def __init__(self, loads: Sequence[Callable[[], T]]) -> None:
        self._loads = deque(loads)

    def take(self) -> T:
        return self._loads.popleft()()

    def close(self) -> None:
        self._loads.clear()
