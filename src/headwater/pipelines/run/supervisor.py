"""Start, restart and stop the queries of a pipeline.

When one sink has failed permanently, the others are stopped: a pipeline runs completely or not at
all.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.run.batch_progress import read_progress
from headwater.pipelines.run.failure_reason import reason_of, whole_trace
from headwater.pipelines.run.query_state import ENDED, SinkQueryState, SinkState
from headwater.pipelines.spec.pipeline_spec import Restarts
from headwater.spark.graceful_stop import Query, stop_gracefully

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.25


Start = Callable[[], Query]
OnChange = Callable[[list[SinkQueryState]], None]


class Supervisor:
    """Runs queries until they end, fail permanently, or are stopped."""

    def __init__(
        self,
        starts: Mapping[str, Start],
        restarts: Restarts,
        *,
        config_errors: tuple[type[Exception], ...],
        fatal_errors: tuple[type[Exception], ...] = (),
        steady_ms: Callable[[], int],
        on_change: OnChange,
        stop_timeout_ms: int,
        ended: Callable[[Query], None] = lambda _: None,
    ) -> None:
        """`config_errors` are errors of a start; `fatal_errors` are not retried."""
        self._starts = dict(starts)
        self._restarts = restarts
        self._config_errors: tuple[type[Exception], ...] = (*config_errors, HeadwaterError)
        self._fatal_errors = fatal_errors
        self._steady_ms = steady_ms
        self._on_change = on_change
        self._ended = ended
        self._stop_timeout_ms = stop_timeout_ms
        self._states = {name: SinkQueryState(name=name) for name in starts}
        self._queries: dict[str, Query] = {}
        self._stop = threading.Event()

    def request_stop(self) -> None:
        """Stop all queries. For any thread, and signal handlers."""
        self._stop.set()

    def run(self) -> list[SinkQueryState]:
        """Run until all queries have ended; return their final states."""
        try:
            while not self._stop.is_set() and not self._is_over():
                self._look()
                self._on_change(self.states())
                self._stop.wait(_LOOK_EVERY_S)
        finally:
            self._stop_all()
            self._on_change(self.states())
        return self.states()

    def states(self) -> list[SinkQueryState]:
        return list(self._states.values())

    def _is_over(self) -> bool:
        states = [each.state for each in self._states.values()]
        return SinkState.FAILED in states or all(each in ENDED for each in states)

    def _look(self) -> None:
        for name in self._states:
            if self._states[name].is_due:
                self._start_if_due(name)
            if self._states[name].state is SinkState.RUNNING:
                self._watch(name)

    def _start_if_due(self, name: str) -> None:
        life = self._states[name]
        if self._steady_ms() < life.start_at_ms:
            return
        try:
            self._queries[name] = self._starts[name]()
        except self._config_errors as error:
            _log.info("Query failed to start: sink=%s\n%s", name, whole_trace(error))
            policy = (
                Restarts(max_count=0) if isinstance(error, self._fatal_errors) else self._restarts
            )
            self._states[name] = life.failed(reason_of(error), policy, self._steady_ms())
        else:
            self._states[name] = life.started()

    def _watch(self, name: str) -> None:
        query = self._queries[name]
        # Read the state before the progress, so that the last batch is not missed.
        is_active = query.isActive
        progress = query.lastProgress
        life = self._states[name]
        if progress:
            life = life.progressed(read_progress(progress))
        if not is_active:
            error = query.exception()
            if error is None:
                self._ended(query)
            else:
                _log.info("Query failed: sink=%s\n%s", name, whole_trace(error))
            life = (
                life.ended(was_stopped=False)
                if error is None
                else life.failed(reason_of(error), self._restarts, self._steady_ms())
            )
        self._states[name] = life

    def _stop_all(self) -> None:
        running = {
            name: query
            for name, query in self._queries.items()
            if self._states[name].state is SinkState.RUNNING
        }
        stop_gracefully(
            running.values(), steady_ms=self._steady_ms, timeout_ms=self._stop_timeout_ms
        )
        for name in running:
            self._watch(name)
        for name, life in self._states.items():
            was_running = life.state not in ENDED or name in running
            if was_running and life.state is not SinkState.FAILED:
                self._states[name] = life.ended(was_stopped=True)
