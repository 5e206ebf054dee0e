"""The state machine of a sink's query: starting, running, waiting, ended.

Only failures without a batch in between count. A sink that fails once a day is restarted forever;
one that cannot start fails after `max` attempts.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from headwater.pipelines.run.batch_progress import BatchProgress
from headwater.pipelines.spec.pipeline_spec import Restarts

_LONGEST_BACKOFF: Final = 32
"""Maximum backoff, as a multiple of the first one."""


class SinkState(Enum):
    """State of a sink."""

    STARTING = "starting"
    RUNNING = "running"
    # Failed, and not restarted yet.
    WAITING = "waiting"
    # All available data is written, and the trigger ends there.
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED: Final = frozenset({SinkState.FINISHED, SinkState.FAILED, SinkState.STOPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkQueryState:
    """State of a sink's query, and its failures."""

    name: str
    state: SinkState = SinkState.STARTING
    # Failures since the last successful batch.
    failures: int = 0
    restarts: int = 0
    start_at_ms: int = 0
    error: str | None = None
    progress: BatchProgress | None = None

    @property
    def is_due(self) -> bool:
        return self.state in (SinkState.STARTING, SinkState.WAITING)

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    def started(self) -> "SinkQueryState":
        again = self.state is SinkState.WAITING
        return replace(self, state=SinkState.RUNNING, restarts=self.restarts + again)

    def progressed(self, progress: BatchProgress) -> "SinkQueryState":
        if self.progress is not None and progress.batch_id == self.progress.batch_id:
            return replace(self, progress=progress)
        return replace(self, progress=progress, failures=0, error=None)

    def failed(self, error: str, restarts: Restarts, now_ms: int) -> "SinkQueryState":
        failures = self.failures + 1
        if failures > restarts.max_count:
            return replace(self, state=SinkState.FAILED, failures=failures, error=error)
        times = min(2 ** (failures - 1), _LONGEST_BACKOFF)
        return replace(
            self,
            state=SinkState.WAITING,
            failures=failures,
            error=error,
            start_at_ms=now_ms + restarts.backoff_ms * times,
        )

    def ended(self, *, was_stopped: bool) -> "SinkQueryState":
        state = SinkState.STOPPED if was_stopped else SinkState.FINISHED
        return replace(self, state=state)
