"""Queries that end, fail and are stopped, watched over."""

from collections.abc import Callable, Mapping
from typing import Any

from headwater.pipelines.run.query_state import SinkQueryState, SinkState
from headwater.pipelines.run.supervisor import Supervisor
from headwater.pipelines.spec.pipeline_spec import Restarts
from headwater.spark.graceful_stop import Query


class Broke(Exception):
    """What a fake query fails with."""


class FakeQuery:
    """Runs for so many looks, and then ends or fails."""

    def __init__(
        self, looks: int | None = None, error: Exception | None = None, batch: int = 0
    ) -> None:
        self._left = looks
        self._error = error
        self._batch = batch
        self.is_in_batch = False
        self.was_stopped = False

    @property
    def isActive(self) -> bool:  # noqa: N802
        if self.was_stopped:
            return False
        if self._left is not None:
            self._left -= 1
        return self._left is None or self._left >= 0

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return {"batchId": self._batch}

    @property
    def status(self) -> Mapping[str, Any]:
        # Each look brings the end of the batch nearer.
        was, self.is_in_batch = self.is_in_batch, False
        return {"isTriggerActive": was}

    def exception(self) -> Exception | None:
        return None if self.was_stopped else self._error

    def stop(self) -> None:
        assert not self.is_in_batch
        self.was_stopped = True


class Clock:
    """Goes on by a second with each look."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


def supervised(
    starts: Mapping[str, Callable[[], Query]],
    *,
    most: int = 2,
    on_change: Callable[[list[SinkQueryState]], None] = lambda _: None,
) -> Supervisor:
    return Supervisor(
        starts,
        Restarts(max_count=most, backoff_ms=1_000),
        config_errors=(Broke, LookupError),
        fatal_errors=(LookupError,),
        steady_ms=Clock(),
        on_change=on_change,
        stop_timeout_ms=60_000,
    )


def states(lives: list[SinkQueryState]) -> dict[str, SinkState]:
    return {each.name: each.state for each in lives}


def test_a_pipeline_ends_when_all_its_queries_have_ended() -> None:
    lives = supervised({"a": lambda: FakeQuery(1), "b": lambda: FakeQuery(3)}).run()
    assert states(lives) == {"a": SinkState.FINISHED, "b": SinkState.FINISHED}


def test_a_query_that_failed_is_started_again() -> None:
    queries = [FakeQuery(1, Broke("once"), batch=0), FakeQuery(1, batch=1)]
    (life,) = supervised({"a": lambda: queries.pop(0)}).run()
    assert (life.state, life.restarts, life.error) == (SinkState.FINISHED, 1, None)
    assert queries == []


def test_a_query_that_never_works_ends_the_pipeline_and_stops_the_others() -> None:
    healthy = FakeQuery()
    lives = supervised(
        {"a": lambda: FakeQuery(0, Broke("line one\nline two")), "b": lambda: healthy}
    ).run()
    assert states(lives) == {"a": SinkState.FAILED, "b": SinkState.STOPPED}
    assert lives[0].error == "line one"
    assert healthy.was_stopped


def test_a_start_that_is_refused_is_tried_again() -> None:
    queries: list[Exception | FakeQuery] = [Broke("no broker"), FakeQuery(1)]

    def start() -> Query:
        found = queries.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    (life,) = supervised({"a": start}).run()
    assert (life.state, life.restarts) == (SinkState.FINISHED, 1)


def test_fatal_error_is_not_retried() -> None:
    attempts = []

    def start() -> Query:
        attempts.append(1)
        raise LookupError("no such column")

    (life,) = supervised({"a": start}).run()
    assert (life.state, len(attempts)) == (SinkState.FAILED, 1)


def test_a_stop_waits_for_the_end_of_a_batch() -> None:
    query = FakeQuery()
    told: list[list[SinkQueryState]] = []

    def on_change(lives: list[SinkQueryState]) -> None:
        told.append(lives)
        query.is_in_batch = True
        supervisor.request_stop()

    supervisor = supervised({"a": lambda: query}, on_change=on_change)
    assert states(supervisor.run()) == {"a": SinkState.STOPPED}
    assert query.was_stopped
    assert [states(each)["a"] for each in told] == [SinkState.RUNNING, SinkState.STOPPED]


def test_a_query_that_has_ended_before_the_stop_has_still_finished() -> None:
    supervisor: Supervisor

    def on_change(lives: list[SinkQueryState]) -> None:
        if states(lives)["a"] is SinkState.FINISHED:
            supervisor.request_stop()

    supervisor = supervised({"a": lambda: FakeQuery(0), "b": FakeQuery}, on_change=on_change)
    assert states(supervisor.run()) == {"a": SinkState.FINISHED, "b": SinkState.STOPPED}
