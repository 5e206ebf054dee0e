"""Decisions of a worker: what runs, what is reported, and what is tried again."""

from collections.abc import Mapping

from headwater.connect.runtime.connect_records import ConnectorState, RestartRecord, TargetState
from headwater.connect.runtime.herder import (
    FOREVER,
    Activated,
    ConnectorsChanged,
    Deactivated,
    DeleteStatus,
    DesiredConnector,
    Effect,
    Herder,
    PutStatus,
    RetryPolicy,
    RetryTimerFired,
    SetRetryTimer,
    ShuttingDown,
    StartTask,
    StopTask,
    TaskExited,
    TaskStarted,
)

RUNNING, FAILED = ConnectorState.RUNNING, ConnectorState.FAILED
UNASSIGNED, RESTARTING = ConnectorState.UNASSIGNED, ConnectorState.RESTARTING
PAUSED, STOPPED = ConnectorState.PAUSED, ConnectorState.STOPPED
CONFIG: Mapping[str, str] = {"connector.class": "FilesSource"}
TRACE = "UnreadableFile: in/a.json is not a json file"


def connectors(**given: DesiredConnector) -> ConnectorsChanged:
    return ConnectorsChanged(given)


def orders(
    target: TargetState = TargetState.STARTED,
    *,
    config: Mapping[str, str] = CONFIG,
    retry: RetryPolicy | None = None,
    problem: str | None = None,
) -> ConnectorsChanged:
    wanted = DesiredConnector(
        config=config, target=target, retry=retry or RetryPolicy(), problem=problem
    )
    return connectors(orders=wanted)


def active(event: ConnectorsChanged | None = None) -> Herder:
    herder = Herder()
    herder.decide(Activated(), 0)
    if event is not None:
        herder.decide(event, 0)
    return herder


def running(event: ConnectorsChanged | None = None) -> Herder:
    herder = active(event or orders())
    herder.decide(TaskStarted("orders", 1), 0)
    return herder


def restart(*, include_tasks: bool = True, only_failed: bool = False) -> RestartRecord:
    return RestartRecord(connector="orders", include_tasks=include_tasks, only_failed=only_failed)


def started(generation: int, *, config: Mapping[str, str] = CONFIG) -> list[Effect]:
    return [StartTask("orders", generation, config)]


def test_a_worker_that_stands_by_runs_and_reports_nothing() -> None:
    herder = Herder()
    assert herder.decide(orders(), 0) == []
    assert herder.decide(restart(), 0) == []


def test_the_active_worker_starts_connectors_and_reports_them_when_they_run() -> None:
    herder = active()
    assert herder.decide(orders(), 0) == [
        PutStatus("orders", None, RUNNING),
        PutStatus("orders", 0, UNASSIGNED),
        StartTask("orders", 1, CONFIG),
    ]
    assert herder.decide(TaskStarted("orders", 1), 5) == [PutStatus("orders", 0, RUNNING)]


def test_a_worker_that_becomes_active_starts_the_connectors_it_knows() -> None:
    herder = Herder()
    herder.decide(orders(), 0)
    assert StartTask("orders", 1, CONFIG) in herder.decide(Activated(), 0)


def test_an_active_worker_that_is_activated_again_reports_all_it_runs() -> None:
    herder = running()
    assert herder.decide(Activated(), 0) == [
        PutStatus("orders", None, RUNNING),
        PutStatus("orders", 0, RUNNING),
    ]


def test_a_paused_connector_is_stopped_and_then_reported() -> None:
    herder = running()
    assert herder.decide(orders(TargetState.PAUSED), 0) == [StopTask("orders", 1)]
    assert herder.decide(TaskExited("orders", 1, ""), 0) == [
        PutStatus("orders", None, PAUSED),
        PutStatus("orders", 0, PAUSED),
    ]
    assert herder.decide(orders(), 0)[-1:] == started(2)


def test_a_stopped_connector_has_no_task() -> None:
    herder = running()
    herder.decide(orders(TargetState.STOPPED), 0)
    assert herder.decide(TaskExited("orders", 1, ""), 0) == [
        PutStatus("orders", None, STOPPED),
        DeleteStatus("orders", 0),
    ]
    assert herder.decide(RetryTimerFired(), 0) == []


def test_a_deleted_connector_loses_its_statuses_after_its_process_has_ended() -> None:
    herder = running()
    assert herder.decide(connectors(), 0) == [StopTask("orders", 1)]
    assert herder.decide(TaskExited("orders", 1, ""), 0) == [
        DeleteStatus("orders", None),
        DeleteStatus("orders", 0),
    ]
    assert herder.running == {}


def test_a_changed_config_takes_effect_only_after_the_old_process_has_ended() -> None:
    herder = running()
    changed = {**CONFIG, "path": "b"}
    assert herder.decide(orders(config=changed), 0) == [StopTask("orders", 1)]
    assert herder.decide(orders(config=changed), 0) == []
    assert herder.decide(TaskExited("orders", 1, ""), 0)[-1:] == started(2, config=changed)


def test_a_failed_task_stays_failed_with_its_trace() -> None:
    herder = running()
    assert herder.decide(TaskExited("orders", 1, TRACE), 0) == [
        PutStatus("orders", 0, FAILED, TRACE)
    ]
    assert herder.decide(RetryTimerFired(), 10**9) == []


def test_a_config_that_cannot_run_fails_the_connector_and_starts_nothing() -> None:
    herder = active()
    assert herder.decide(orders(problem="no option pth"), 0) == [
        PutStatus("orders", None, FAILED, "no option pth"),
        DeleteStatus("orders", 0),
    ]


def test_a_restart_with_tasks_replaces_the_process() -> None:
    herder = running()
    assert herder.decide(restart(), 0) == [
        PutStatus("orders", 0, RESTARTING),
        StopTask("orders", 1),
    ]
    assert herder.decide(TaskExited("orders", 1, ""), 0) == started(2)
    assert herder.decide(TaskStarted("orders", 2), 0) == [PutStatus("orders", 0, RUNNING)]


def test_a_restart_of_failed_instances_leaves_a_running_task_alone() -> None:
    herder = running()
    assert herder.decide(restart(only_failed=True), 0) == []
    herder.decide(TaskExited("orders", 1, TRACE), 0)
    assert herder.decide(restart(only_failed=True), 0)[-1:] == started(2)


def test_a_restart_without_tasks_leaves_the_process_alone() -> None:
    herder = running()
    assert herder.decide(restart(include_tasks=False), 0) == []


def test_a_stopped_connector_is_not_restarted() -> None:
    herder = active(orders(TargetState.STOPPED))
    assert herder.decide(restart(), 0) == []


def test_a_failed_task_is_retried_with_growing_delays_until_the_timeout() -> None:
    herder = running(orders(retry=RetryPolicy(timeout_ms=1_000, delay_max_ms=500)))
    assert herder.decide(TaskExited("orders", 1, TRACE), 100) == [
        PutStatus("orders", 0, FAILED, TRACE),
        SetRetryTimer(400),
    ]
    assert herder.decide(RetryTimerFired(), 399) == [SetRetryTimer(400)]
    assert herder.decide(RetryTimerFired(), 400) == [
        PutStatus("orders", 0, RESTARTING),
        *started(2),
    ]
    assert herder.decide(TaskExited("orders", 2, TRACE), 500)[-1:] == [SetRetryTimer(1_000)]
    herder.decide(RetryTimerFired(), 1_000)
    assert herder.decide(TaskExited("orders", 3, TRACE), 1_100) == [
        PutStatus("orders", 0, FAILED, TRACE)
    ]


def test_a_task_that_ran_for_long_starts_a_new_series_of_retries() -> None:
    herder = running(orders(retry=RetryPolicy(timeout_ms=FOREVER, delay_max_ms=1_000)))
    herder.decide(TaskExited("orders", 1, TRACE), 0)
    herder.decide(RetryTimerFired(), 300)
    herder.decide(TaskStarted("orders", 2), 300)
    assert herder.decide(TaskExited("orders", 2, TRACE), 400)[-1:] == [SetRetryTimer(1_000)]
    herder.decide(RetryTimerFired(), 1_000)
    herder.decide(TaskStarted("orders", 3), 1_000)
    assert herder.decide(TaskExited("orders", 3, TRACE), 2_000)[-1:] == [SetRetryTimer(2_300)]


def test_events_of_an_earlier_process_are_ignored() -> None:
    herder = running()
    herder.decide(restart(), 0)
    herder.decide(TaskExited("orders", 1, ""), 0)
    assert herder.decide(TaskExited("orders", 1, TRACE), 0) == []
    assert herder.decide(TaskStarted("orders", 1), 0) == []
    assert herder.running == {"orders": 2}


def test_a_worker_that_is_no_longer_active_stops_tasks_and_leaves_statuses_to_the_next() -> None:
    herder = running()
    assert herder.decide(Deactivated(), 0) == [StopTask("orders", 1)]
    assert herder.decide(TaskExited("orders", 1, ""), 0) == []
    assert herder.decide(Activated(), 0) == [
        PutStatus("orders", None, RUNNING),
        PutStatus("orders", 0, UNASSIGNED),
        *started(2),
    ]


def test_a_worker_that_shuts_down_reports_its_connectors_as_unassigned() -> None:
    herder = running()
    assert herder.decide(ShuttingDown(), 0) == [StopTask("orders", 1)]
    assert herder.decide(TaskExited("orders", 1, ""), 0) == [
        PutStatus("orders", None, UNASSIGNED),
        PutStatus("orders", 0, UNASSIGNED),
    ]


def test_a_connector_that_is_deleted_and_created_again_has_one_process_at_a_time() -> None:
    herder = running()
    herder.decide(connectors(), 0)
    assert herder.decide(orders(), 0) == []
    assert herder.decide(TaskExited("orders", 1, ""), 0)[-1:] == started(2)
