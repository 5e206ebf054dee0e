"""Prepare batches on threads and append them in the order of their arrival.

Invariant: while one batch of a partition is being prepared, all later ones wait behind it, also
batches that need no preparation. Idempotent producers count on the order.
"""

from collections.abc import Callable
from functools import partial

from headwater.common.exceptions import BatchError, HeadwaterError, QueueFull, StorageError
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_preparation import PreparedBatch, prepare_batch
from headwater.replication.partition import Partition
from headwater.storage.io.executor import Executor
from headwater.storage.log.unified_log import UnifiedLog

Ready = PreparedBatch | bytearray | HeadwaterError
"""A batch to append, validated if necessary, or the error that it failed with."""


class PendingAppend:
    """One batch on its way into a log. `then` is called with it in its turn."""

    __slots__ = ("_then", "outcome")

    def __init__(self, then: Callable[[Ready], None]) -> None:
        self._then = then
        self.outcome: Ready | None = None

    def end(self) -> None:
        assert self.outcome is not None
        self._then(self.outcome)


def append_in_order(
    hosted: Partition,
    log: UnifiedLog,
    batch: bytearray,
    *,
    executor: Executor,
    now_ms: int,
    then: Callable[[Ready], None],
) -> None:
    """Validate a batch if necessary and pass it to `then` after all earlier batches.

    Ownership of the batch moves here. `then` may be called before this function returns.
    """
    waiting = PendingAppend(then)
    hosted.pending_appends.append(waiting)
    if not log.needs_preparation(batch, is_waiting=True):
        _ready(hosted, waiting, batch)
        return
    job = partial(_prepared, batch, log.settings, now_ms)
    try:
        executor.submit(
            job, then=partial(_ready, hosted, waiting), on_error=partial(_ready, hosted, waiting)
        )
    except QueueFull as refusal:
        _ready(hosted, waiting, refusal)


def _prepared(batch: bytearray, settings: TopicSettings, now_ms: int) -> PreparedBatch | BatchError:
    """Runs on a thread. An error is returned, not raised, so that it keeps its turn."""
    try:
        return prepare_batch(batch, settings, now_ms=now_ms)
    except BatchError as error:
        # Drop the traceback: its frames refer to the thread's frame, which holds this result. That
        # reference cycle would keep their memory alive until the next collection.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return error


def _ready(hosted: Partition, entry: PendingAppend, outcome: Ready | StorageError) -> None:
    entry.outcome = outcome
    waiting = hosted.pending_appends
    while waiting and waiting[0].outcome is not None:
        waiting.popleft().end()
