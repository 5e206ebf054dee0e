"""The shards of one topic: which exist, and in which order they are loaded."""

from collections.abc import Callable

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_context import CoordinatorServices
from headwater.coordinator.runtime.coordinator_effects import Reply, RequestEvent
from headwater.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from headwater.coordinator.runtime.coordinator_state import CoordinatorState
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.purgatory.timer import Timer
from tests.simulation.fakes.in_memory_coordinator_log import InMemoryCoordinatorLog
from tests.simulation.fakes.scripted_shard import Event, ScriptedShard
from tests.simulation.labs.broker_lab import ScriptedClock

DONE = HeartbeatResponse()


def answers_all(event: Event) -> list[Reply]:
    return [Reply(event.caller, DONE)] if isinstance(event, RequestEvent) else []


class Lab:
    def __init__(self) -> None:
        self.machines: dict[int, ScriptedShard] = {}
        self.logs: dict[int, InMemoryCoordinatorLog] = {}
        self.runtime: CoordinatorRuntime[str] = CoordinatorRuntime(
            CoordinatorServices(
                topic="t",
                make=self._make,
                codec=GROUP_RECORDS,
                clock=ScriptedClock(),
                timer=Timer(),
                perform=lambda _, __: None,
            )
        )

    def lead(self, *numbers: int, is_slow: bool = False) -> None:
        for number in numbers:
            log = self.logs[number] = InMemoryCoordinatorLog(GROUP_RECORDS)
            if is_slow:
                # A record of an unknown type is enough to make a load take a while.
                batch = build_batch([Record(key=b"\x7f\xff", timestamp=0)])
                log.append(bytearray(batch), 0)
                log.is_slow = True
            self.runtime.lead(number, self._opens(number))

    def load(self) -> None:
        self.runtime.load_some(1)

    def states(self) -> dict[int, CoordinatorState]:
        return {shard.number: shard.state for shard in self.runtime.shards()}

    def ask(self, number: int) -> list[Outcome]:
        answers: list[Outcome] = []
        self.runtime.handle_request(
            number,
            HeartbeatRequest(),
            version=4,
            client_id="c",
            client_host="h",
            answer=answers.append,
        )
        return answers

    def _opens(self, number: int) -> Callable[[], InMemoryCoordinatorLog]:
        return lambda: self.logs[number]

    def _make(self, number: int, leader_epoch: int) -> ScriptedShard:
        machine = self.machines[number] = ScriptedShard(leader_epoch)
        machine.scripts.extend([answers_all] * 9)
        return machine


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_a_request_for_a_partition_led_elsewhere_gets_not_coordinator(lab: Lab) -> None:
    lab.lead(1)
    assert lab.ask(1) == [DONE]
    assert lab.ask(2) == [ErrorCode.NOT_COORDINATOR]
    lab.runtime.resign(1)
    lab.runtime.resign(1)
    assert lab.ask(1) == [ErrorCode.NOT_COORDINATOR]


def test_empty_logs_are_loaded_at_once_however_many_there_are(lab: Lab) -> None:
    lab.lead(0, 1, is_slow=True)
    lab.lead(*range(2, 2000))
    lab.load()
    assert lab.runtime.is_loading
    for number in (0, 1):
        lab.logs[number].waiting.popleft()()
    lab.load()
    assert set(lab.states().values()) == {CoordinatorState.ACTIVE}
    assert not lab.runtime.is_loading


def test_loading_stops_at_its_time_limit(lab: Lab) -> None:
    lab.lead(*range(10))
    assert set(lab.states().values()) == {CoordinatorState.QUEUED}
    lab.runtime.load_some(0)
    assert lab.states()[0] is CoordinatorState.ACTIVE
    assert lab.states()[1] is CoordinatorState.QUEUED
    assert lab.ask(5) == [DONE]


def test_few_logs_are_loaded_at_a_time_and_requested_ones_first(lab: Lab) -> None:
    lab.lead(0, 1, 2, 3, is_slow=True)
    lab.load()
    loading, queued = CoordinatorState.LOADING, CoordinatorState.QUEUED
    assert lab.states() == {0: loading, 1: loading, 2: queued, 3: queued}
    assert lab.ask(3) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert lab.states() == {0: loading, 1: loading, 2: queued, 3: loading}
    lab.logs[3].waiting.popleft()()
    assert lab.ask(3) == [DONE]
    lab.logs[0].waiting.popleft()()
    assert lab.states()[2] is loading
    for number in (1, 2):
        lab.logs[number].waiting.popleft()()
    assert set(lab.states().values()) == {CoordinatorState.ACTIVE}
    assert not lab.runtime.is_loading


def test_a_new_epoch_creates_a_new_shard(lab: Lab) -> None:
    lab.lead(0)
    lab.load()
    first = lab.machines[0]
    lab.lead(0)
    lab.load()
    assert lab.machines[0] is not first
    assert len(lab.runtime.shards()) == 1


def test_a_partition_lost_while_it_is_queued_is_not_loaded(lab: Lab) -> None:
    lab.lead(0, 1, 2, is_slow=True)
    lab.load()
    lab.runtime.resign(2)
    for number in (0, 1):
        lab.logs[number].waiting.popleft()()
    assert not lab.logs[2].waiting
    assert not lab.runtime.is_loading


def test_events_are_passed_to_all_shards(lab: Lab) -> None:
    lab.lead(0, 1)
    lab.load()
    lab.runtime.handle_event("news")
    assert [lab.machines[number].events[-1] for number in (0, 1)] == ["news", "news"]


def test_closing_removes_all_shards(lab: Lab) -> None:
    lab.lead(0, 1)
    lab.lead(2, 3, 4, is_slow=True)
    lab.load()
    lab.runtime.close()
    assert lab.states() == {}
    assert not lab.runtime.is_loading
