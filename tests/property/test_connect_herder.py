"""Random events for the herder of a Connect worker: one process each, and what is wanted runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headwater.connect.runtime.connect_records import ConnectorState, RestartRecord, TargetState
from headwater.connect.runtime.herder import (
    FOREVER,
    Activated,
    ConnectorsChanged,
    Deactivated,
    DeleteStatus,
    DesiredConnector,
    Effect,
    Event,
    Herder,
    PutStatus,
    RetryPolicy,
    RetryTimerFired,
    SetRetryTimer,
    StartTask,
    StopTask,
    TaskExited,
    TaskStarted,
)

NAMES = st.sampled_from(["a", "b"])
DESIRED = st.builds(
    DesiredConnector,
    config=st.sampled_from([{"v": "1"}, {"v": "2"}]),
    target=st.sampled_from([*TargetState, TargetState.STARTED, TargetState.STARTED]),
    retry=st.sampled_from(
        [RetryPolicy(), RetryPolicy(timeout_ms=FOREVER), RetryPolicy(timeout_ms=500)]
    ),
    problem=st.sampled_from([None, None, None, "bad"]),
)
CONNECTORS: st.SearchStrategy[dict[str, DesiredConnector]] = st.one_of(
    st.fixed_dictionaries({"a": DESIRED}, optional={"b": DESIRED}), st.just({})
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("connectors"), CONNECTORS),
        st.tuples(st.just("connectors"), CONNECTORS),
        st.tuples(st.just("active"), st.booleans()),
        st.tuples(st.just("restart"), st.tuples(NAMES, st.booleans(), st.booleans())),
        st.tuples(st.just("started"), NAMES),
        st.tuples(st.just("crashes"), NAMES),
        st.tuples(st.just("exits"), NAMES),
        st.tuples(st.just("time"), st.integers(1, 5_000)),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Worker:
    """Carries out the decisions of a herder in memory."""

    herder: Herder = field(default_factory=Herder)
    now_ms: int = 0
    connectors: Mapping[str, DesiredConnector] = field(default_factory=dict)
    processes: dict[str, StartTask] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    statuses: dict[tuple[str, int | None], ConnectorState] = field(default_factory=dict)
    timers_ms: list[int] = field(default_factory=list)

    def step(self, kind: str, value: object) -> None:
        match kind, value:
            case "connectors", dict(found):
                self.connectors = found
                self.decide(ConnectorsChanged(found))
            case "active", bool(is_active):
                if is_active:
                    # As a worker does: these were deleted while none was active.
                    self.statuses = {
                        key: state
                        for key, state in self.statuses.items()
                        if key[0] in self.connectors
                    }
                self.decide(Activated() if is_active else Deactivated())
            case "restart", (str(name), bool(include_tasks), bool(only_failed)):
                self.decide(
                    RestartRecord(
                        connector=name, include_tasks=include_tasks, only_failed=only_failed
                    )
                )
            case "started", str(name) if name in self.processes:
                self.decide(TaskStarted(name, self.processes[name].generation))
            case "crashes", str(name) if name in self.processes:
                self.exit(name, "crash")
            case "exits", str(name) if name in self.stopping:
                self.exit(name, "")
            case "time", int(elapsed_ms):
                self.now_ms += elapsed_ms
                self.fire_timers()

    def exit(self, name: str, trace: str) -> None:
        generation = self.processes.pop(name).generation
        self.stopping.discard(name)
        self.decide(TaskExited(name, generation, trace))

    def fire_timers(self) -> None:
        due = [each for each in self.timers_ms if each <= self.now_ms]
        self.timers_ms = [each for each in self.timers_ms if each > self.now_ms]
        if due:
            self.decide(RetryTimerFired())

    def decide(self, event: Event) -> None:
        for effect in self.herder.decide(event, self.now_ms):
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case StartTask(name):
                assert name not in self.processes, "a connector has one process"
                assert self.herder.is_active
                self.processes[name] = effect
            case StopTask(name, generation):
                assert self.processes[name].generation == generation
                assert name not in self.stopping, "a process is stopped once"
                self.stopping.add(name)
            case PutStatus(name, task, state):
                assert self.herder.is_active, "only the active worker reports"
                self.statuses[name, task] = state
            case DeleteStatus(name, task):
                assert self.herder.is_active
                self.statuses.pop((name, task), None)
            case SetRetryTimer(at_ms):
                self.timers_ms.append(at_ms)

    def settle(self) -> None:
        """Let everything happen that is due: exits, timers, starts."""
        for _ in range(100):
            if self.stopping:
                self.exit(min(self.stopping), "")
            elif self.timers_ms:
                self.now_ms = max(self.now_ms, *self.timers_ms)
                self.fire_timers()
            else:
                break
        for name in sorted(self.processes):
            self.decide(TaskStarted(name, self.processes[name].generation))


@given(STEPS)
def test_a_worker_runs_what_is_wanted_and_reports_what_runs(
    steps: list[tuple[str, object]],
) -> None:
    worker = Worker()
    worker.step("active", True)
    for kind, value in steps:
        worker.step(kind, value)
    worker.step("active", True)
    worker.settle()
    for name, desired in worker.connectors.items():
        task = worker.statuses.get((name, 0))
        state = worker.statuses[name, None]
        match desired.target:
            case TargetState.STARTED if desired.problem is not None:
                assert (state, task) == (ConnectorState.FAILED, None)
            case TargetState.STARTED:
                assert state is ConnectorState.RUNNING
                assert task in (ConnectorState.RUNNING, ConnectorState.FAILED)
            case TargetState.PAUSED:
                assert (state, task) == (ConnectorState.PAUSED, ConnectorState.PAUSED)
            case TargetState.STOPPED:
                assert (state, task) == (ConnectorState.STOPPED, None)
        runs = name in worker.processes
        assert runs == (task is ConnectorState.RUNNING)
        if runs:
            assert worker.processes[name].config == desired.config
    assert {name for name, _ in worker.statuses} == set(worker.connectors)
    assert set(worker.processes) <= set(worker.connectors)
    assert worker.herder.running == {
        name: each.generation for name, each in worker.processes.items()
    }


@given(STEPS)
def test_a_failed_task_that_is_retried_for_ever_runs_in_the_end(
    steps: list[tuple[str, object]],
) -> None:
    worker = Worker()
    wanted = DesiredConnector(config={"v": "1"}, retry=RetryPolicy(timeout_ms=FOREVER))
    worker.decide(Activated())
    for kind, value in steps:
        if kind not in ("connectors", "active"):
            worker.step(kind, value)
        else:
            worker.step("connectors", {"a": wanted})
    worker.step("connectors", {"a": wanted})
    worker.settle()
    assert worker.statuses["a", 0] is ConnectorState.RUNNING
