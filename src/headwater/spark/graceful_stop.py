"""Stop streaming queries between two batches, within a time limit.

A batch that is interrupted at the limit is repeated by the next run; an exactly-once sink still
writes it once.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

STOP_TIMEOUT_MS: Final = 30_000
_LOOK_EVERY_S: Final = 0.25


class Query(Protocol):
    """The part of Spark's `StreamingQuery` that is used here."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802

    @property
    def lastProgress(self) -> Any: ...  # noqa: N802

    @property
    def status(self) -> Mapping[str, Any]: ...

    def exception(self) -> Exception | None: ...

    def stop(self) -> None: ...


def stop_gracefully(
    queries: Iterable[Query],
    *,
    steady_ms: Callable[[], int],
    timeout_ms: int = STOP_TIMEOUT_MS,
) -> None:
    """Stop each as soon as its batch is done, and all at the timeout."""
    deadline_ms = steady_ms() + timeout_ms
    waiting = [(query, _batch_of(query)) for query in queries]
    while waiting and steady_ms() < deadline_ms:
        done = [query for query, batch in waiting if _is_between_batches(query, batch)]
        for query in done:
            query.stop()
        waiting = [(query, batch) for query, batch in waiting if query not in done]
        if waiting:
            threading.Event().wait(_LOOK_EVERY_S)
    for query, _ in waiting:
        query.stop()


def _batch_of(query: Query) -> int:
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _is_between_batches(query: Query, batch: int) -> bool:
    if not query.isActive or _batch_of(query) != batch:
        return True
    return not query.status.get("isTriggerActive", False)
