"""Decide which connectors run on this worker, and what their statuses are.

`decide` takes an event and returns effects; the worker carries them out. One worker of a group is
active and runs all connectors, so that deciding needs no other worker. A connector has one task,
and a task is one process.

Invariant: a connector has at most one process. Before a changed connector starts, the process with
its earlier config must have exited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, assert_never

from headwater.connect.runtime.connect_records import ConnectorState, RestartRecord, TargetState

_FIRST_RETRY_MS: Final = 300
_DOUBLINGS_MAX: Final = 30
FOREVER: Final = -1
"""`errors.retry.timeout` of a connector that is restarted without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed task is restarted; never by default."""

    timeout_ms: int = 0
    delay_max_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredConnector:
    """A connector as the config topic has it."""

    config: Mapping[str, str]
    target: TargetState = TargetState.STARTED
    retry: RetryPolicy = RetryPolicy()
    # Why the config cannot be run.
    problem: str | None = None


# Events.


@dataclass(frozen=True, slots=True)
class ConnectorsChanged:
    """All connectors, after a config or a target state has changed."""

    connectors: Mapping[str, DesiredConnector]


@dataclass(frozen=True, slots=True)
class Activated:
    """This worker has become the active one, or must report everything again."""


@dataclass(frozen=True, slots=True)
class Deactivated:
    """Another worker may be active now, which reports statuses from here on."""


@dataclass(frozen=True, slots=True)
class ShuttingDown:
    """This worker stops; its connectors are stopped and reported as unassigned."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """The process of a task has started its work."""

    connector: str
    generation: int


@dataclass(frozen=True, slots=True)
class TaskExited:
    """The process of a task has ended; the trace says why if it was not stopped."""

    connector: str
    generation: int
    trace: str


@dataclass(frozen=True, slots=True)
class RetryTimerFired:
    """Some time has passed; timers may fire late or twice."""


Event = (
    ConnectorsChanged
    | RestartRecord
    | Activated
    | Deactivated
    | ShuttingDown
    | TaskStarted
    | TaskExited
    | RetryTimerFired
)


# Effects.


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a process; events about it carry the generation."""

    connector: str
    generation: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StopTask:
    """Ask a process to stop, and kill it if that takes too long."""

    connector: str
    generation: int


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Write the status of a connector (without `task`) or a task."""

    connector: str
    task: int | None
    state: ConnectorState
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteStatus:
    """Remove the status of a connector (without `task`) or a task."""

    connector: str
    task: int | None


@dataclass(frozen=True, slots=True)
class SetRetryTimer:
    """Fire a timer at this time."""

    at_ms: int


Effect = StartTask | StopTask | PutStatus | DeleteStatus | SetRetryTimer


class _Process(Enum):
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()


@dataclass(slots=True)
class _Connector:
    desired: DesiredConnector | None = None
    process: _Process | None = None
    generation: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """The config of the process, or of the last one."""
    trace: str | None = None
    """Why the last process failed."""
    must_restart: bool = False
    started_ms: int = 0
    failed_since_ms: int = 0
    failures: int = 0
    retry_at_ms: int | None = None
    # What was reported last, by task; None is the connector itself.
    reported: dict[int | None, tuple[ConnectorState, str | None] | None] = field(
        default_factory=dict
    )


class Herder:
    """The connectors of a worker group, seen by one worker."""

    def __init__(self) -> None:
        self.is_active = False
        self._is_closing = False
        self._connectors: dict[str, _Connector] = {}

    @property
    def running(self) -> dict[str, int]:
        """Generations of all processes that have not exited, by connector."""
        return {
            name: each.generation
            for name, each in self._connectors.items()
            if each.process is not None
        }

    def decide(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case ConnectorsChanged(connectors):
                return self._on_connectors(connectors, now_ms)
            case RestartRecord():
                return self._on_restart(event, now_ms)
            case Activated():
                self.is_active = True
                for each in self._connectors.values():
                    # Statuses of the worker that was active before are not ours.
                    each.reported.clear()
            case Deactivated():
                self.is_active = False
            case ShuttingDown():
                self._is_closing = True
            case TaskStarted(name, generation):
                return self._on_started(name, generation, now_ms)
            case TaskExited(name, generation, trace):
                return self._on_exited(name, generation, trace, now_ms)
            case RetryTimerFired():
                pass
            case _:
                assert_never(event)
        return self._all(now_ms)

    def _on_connectors(
        self, connectors: Mapping[str, DesiredConnector], now_ms: int
    ) -> list[Effect]:
        for name, desired in connectors.items():
            connector = self._connectors.setdefault(name, _Connector())
            before = connector.desired
            if before is None or (before.config, before.target) != (desired.config, desired.target):
                # As in Kafka Connect, a new config or a resumed connector is tried again.
                _forget_failure(connector)
            connector.desired = desired
        for name, connector in self._connectors.items():
            if name not in connectors:
                connector.desired = None
        return self._all(now_ms)

    def _on_restart(self, request: RestartRecord, now_ms: int) -> list[Effect]:
        connector = self._connectors.get(request.connector)
        if connector is None or connector.desired is None or not self.is_active:
            return []
        if connector.desired.target is not TargetState.STARTED:
            return []
        has_failed = connector.trace is not None
        if not request.include_tasks or (request.only_failed and not has_failed):
            return []
        _forget_failure(connector)
        connector.must_restart = True
        restarting: list[Effect] = []
        if connector.desired.problem is None:
            restarting = self._report(request.connector, 0, ConnectorState.RESTARTING)
        return [*restarting, *self._one(request.connector, now_ms)]

    def _on_started(self, name: str, generation: int, now_ms: int) -> list[Effect]:
        connector = self._connectors.get(name)
        if connector is None or connector.generation != generation:
            return []
        if connector.process is _Process.STARTING:
            connector.process = _Process.RUNNING
            connector.started_ms = now_ms
        return self._one(name, now_ms)

    def _on_exited(self, name: str, generation: int, trace: str, now_ms: int) -> list[Effect]:
        connector = self._connectors.get(name)
        if connector is None or connector.generation != generation or connector.process is None:
            return []
        if connector.process is not _Process.STOPPING:
            self._note_failure(connector, trace, now_ms)
        connector.process = None
        return self._one(name, now_ms)

    def _note_failure(self, connector: _Connector, trace: str, now_ms: int) -> None:
        connector.trace = trace
        if connector.desired is None:
            return
        policy = connector.desired.retry
        has_run = connector.process is _Process.RUNNING
        if has_run and now_ms - connector.started_ms >= policy.delay_max_ms:
            connector.failures = 0
        if connector.failures == 0:
            connector.failed_since_ms = now_ms
        delay_ms = min(
            policy.delay_max_ms, _FIRST_RETRY_MS << min(connector.failures, _DOUBLINGS_MAX)
        )
        connector.failures += 1
        is_in_time = now_ms - connector.failed_since_ms < policy.timeout_ms
        is_retried = policy.timeout_ms == FOREVER or is_in_time
        connector.retry_at_ms = now_ms + delay_ms if is_retried else None

    def _all(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for name in list(self._connectors):
            effects += self._one(name, now_ms)
        return effects

    def _one(self, name: str, now_ms: int) -> list[Effect]:
        """Bring one connector closer to what is desired."""
        connector = self._connectors[name]
        if connector.process is not None:
            return self._with_process(name, connector)
        desired = connector.desired
        if desired is None:
            del self._connectors[name]
            return [DeleteStatus(name, None), DeleteStatus(name, 0)] if self.is_active else []
        if not self.is_active:
            return []
        if self._is_closing:
            return self._report_both(name, ConnectorState.UNASSIGNED)
        match desired.target:
            case TargetState.STOPPED:
                connector.must_restart = False
                stopped = self._report(name, None, ConnectorState.STOPPED)
                return [*stopped, *self._report_no_task(name)]
            case TargetState.PAUSED:
                connector.must_restart = False
                return self._report_both(name, ConnectorState.PAUSED)
            case TargetState.STARTED:
                return self._without_process(name, connector, desired, now_ms)
            case _:
                assert_never(desired.target)

    def _with_process(self, name: str, connector: _Connector) -> list[Effect]:
        if connector.process is _Process.STOPPING:
            return []
        desired = connector.desired
        is_wanted = (
            self.is_active
            and not self._is_closing
            and desired is not None
            and desired.target is TargetState.STARTED
            and desired.problem is None
            and desired.config == connector.config
        )
        if not is_wanted or connector.must_restart:
            connector.process = _Process.STOPPING
            return [StopTask(name, connector.generation)]
        if connector.process is _Process.RUNNING:
            return self._report_both(name, ConnectorState.RUNNING)
        return []

    def _without_process(
        self, name: str, connector: _Connector, desired: DesiredConnector, now_ms: int
    ) -> list[Effect]:
        if desired.problem is not None:
            connector.must_restart = False
            failed = self._report(name, None, ConnectorState.FAILED, desired.problem)
            return [*failed, *self._report_no_task(name)]
        running = self._report(name, None, ConnectorState.RUNNING)
        is_due = connector.retry_at_ms is not None and connector.retry_at_ms <= now_ms
        if connector.trace is not None and not is_due:
            failed = self._report(name, 0, ConnectorState.FAILED, connector.trace)
            timer: list[Effect] = (
                [] if connector.retry_at_ms is None else [SetRetryTimer(connector.retry_at_ms)]
            )
            return [*running, *failed, *timer]
        is_again = connector.must_restart or is_due
        connector.must_restart = False
        connector.trace, connector.retry_at_ms = None, None
        connector.generation += 1
        connector.process = _Process.STARTING
        connector.config = desired.config
        state = ConnectorState.RESTARTING if is_again else ConnectorState.UNASSIGNED
        waiting = self._report(name, 0, state)
        return [*running, *waiting, StartTask(name, connector.generation, desired.config)]

    def _report_both(self, name: str, state: ConnectorState) -> list[Effect]:
        return [*self._report(name, None, state), *self._report(name, 0, state)]

    def _report(
        self, name: str, task: int | None, state: ConnectorState, trace: str | None = None
    ) -> list[Effect]:
        reported = self._connectors[name].reported
        if not self.is_active or reported.get(task) == (state, trace):
            return []
        reported[task] = (state, trace)
        return [PutStatus(name, task, state, trace)]

    def _report_no_task(self, name: str) -> list[Effect]:
        reported = self._connectors[name].reported
        if not self.is_active or (0 in reported and reported[0] is None):
            return []
        reported[0] = None
        return [DeleteStatus(name, 0)]


def _forget_failure(connector: _Connector) -> None:
    connector.trace = None
    connector.retry_at_ms = None
    connector.failures = 0
