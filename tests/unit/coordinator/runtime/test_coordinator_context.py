"""A shard on its partition: loading, replies, failures, timers."""

from functools import partial
from typing import cast

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    HeadwaterError,
    QueueFull,
    StorageError,
    TooManyOpenFiles,
)
from headwater.common.ids import ProducerId
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    CancelTimer,
    Effect,
    Loaded,
    Reply,
    RequestEvent,
    SetTimer,
    TimerFired,
    TransactionalProducer,
)
from headwater.coordinator.runtime.coordinator_state import CoordinatorState
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.offset_commit import OffsetCommitRequest
from headwater.replication.purgatory.timer import Timer
from tests.simulation.fakes.in_memory_coordinator_log import InMemoryCoordinatorLog
from tests.simulation.fakes.scripted_shard import Event, Script, ScriptedShard
from tests.simulation.labs.broker_lab import ScriptedClock

DONE = HeartbeatResponse()
PRODUCER = TransactionalProducer(ProducerId(7), 2)
WRITE_TIMEOUT_MS = 5_000


def record(number: int) -> OffsetCommitRecord:
    key = OffsetCommitKey(group="g", topic="orders", partition=number)
    return OffsetCommitRecord(key, OffsetCommitValue(offset=5))


def reply(event: Event) -> Reply:
    assert isinstance(event, RequestEvent)
    return Reply(event.caller, DONE)


def writes(number: int, producer: TransactionalProducer | None = None) -> Script:
    return lambda event: [Append((record(number),), producer), reply(event)]


def reads(event: Event) -> list[Effect]:
    return [reply(event)]


class Lab:
    """One shard and everything it touches."""

    def __init__(self, log: InMemoryCoordinatorLog | None = None) -> None:
        self.log = log or InMemoryCoordinatorLog(GROUP_RECORDS)
        self.clock = ScriptedClock()
        self.timer = Timer()
        self.machines: list[ScriptedShard] = []
        self.scripts: list[Script] = []
        self.performed: list[Effect] = []
        self.loads_ended = 0
        self.open_error: HeadwaterError | None = None
        tools: CoordinatorServices[str] = CoordinatorServices(
            topic="__consumer_offsets",
            make=self._make,
            codec=GROUP_RECORDS,
            clock=self.clock,
            timer=self.timer,
            perform=lambda _, effect: self.performed.append(effect),
            write_timeout_ms=WRITE_TIMEOUT_MS,
        )
        self.shard: CoordinatorContext[str] = CoordinatorContext(
            3, self._open, tools, load_ended=self._load_ended
        )

    @property
    def machine(self) -> ScriptedShard:
        return self.machines[-1]

    def state(self) -> CoordinatorState:
        return self.shard.state

    def load(self) -> "Lab":
        self.shard.load()
        return self

    def ask(self, *scripts: Script, request: object = None) -> list[Outcome]:
        """The outcome of a request, now or later."""
        self.machine.scripts.extend(scripts)
        answers: list[Outcome] = []
        self.shard.handle_request(
            request if isinstance(request, OffsetCommitRequest) else HeartbeatRequest(),
            version=4,
            client_id="c",
            client_host="h",
            answer=answers.append,
        )
        return answers

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    def _make(self, number: int, leader_epoch: int) -> ScriptedShard:
        assert number == 3
        self.machines.append(ScriptedShard(leader_epoch))
        return self.machine

    def _open(self) -> InMemoryCoordinatorLog:
        if self.open_error is not None:
            raise self.open_error
        return self.log

    def _load_ended(self) -> None:
        self.loads_ended += 1


@pytest.fixture
def lab() -> Lab:
    return Lab().load()


def test_a_request_is_appended_replayed_and_answered(lab: Lab) -> None:
    answers = lab.ask(writes(0))
    assert answers == [DONE]
    assert lab.machine.replayed == [(record(0), 0, None)]
    (header,) = lab.log.headers()
    assert (header.record_count, header.is_transactional, header.producer_id) == (1, False, -1)
    assert header.max_timestamp == lab.clock.now_ms()


def test_records_of_one_append_are_one_batch(lab: Lab) -> None:
    lab.ask(lambda event: [Append((record(0), record(1))), reply(event)])
    assert [header.record_count for header in lab.log.headers()] == [2]
    assert lab.machine.replayed == [(record(0), 0, None), (record(1), 1, None)]


def test_an_empty_append_writes_nothing(lab: Lab) -> None:
    assert lab.ask(lambda event: [Append(()), reply(event)]) == [DONE]
    assert lab.log.batches == []


def test_transactional_records_carry_their_producer(lab: Lab) -> None:
    """IDP-9: the epoch, but no sequence."""
    lab.ask(writes(0, PRODUCER))
    (header,) = lab.log.headers()
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    assert header.is_transactional
    assert lab.machine.replayed == [(record(0), 0, ProducerId(7))]


def test_a_reply_that_waits_too_long_for_replication_times_out_and_nothing_is_undone(
    lab: Lab,
) -> None:
    """offsets.commit.timeout.ms: as in Kafka, the coordinator counts as unavailable."""
    lab.log.commits_at_once = False
    first = lab.ask(writes(0))
    lab.pass_time(WRITE_TIMEOUT_MS - 1)
    second = lab.ask(writes(1))
    assert first == []
    lab.pass_time(1)
    assert first == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert second == []
    lab.log.commit()
    assert second == [DONE]
    lab.pass_time(WRITE_TIMEOUT_MS)
    assert first == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert second == [DONE]
    assert [each for each, *_ in lab.machine.replayed] == [record(0), record(1)]


def test_a_failing_append_is_logged_at_first_and_then_periodically(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(code: ErrorCode) -> int:
        caplog.clear()
        lab.log.append_errors.append(code)
        lab.ask(writes(0))
        return len(caplog.messages)

    assert refused(ErrorCode.NOT_ENOUGH_REPLICAS) == 1
    assert refused(ErrorCode.NOT_ENOUGH_REPLICAS) == 0
    assert refused(ErrorCode.MESSAGE_TOO_LARGE) == 1
    lab.pass_time(60_000)
    assert refused(ErrorCode.MESSAGE_TOO_LARGE) == 1
    lab.ask(writes(0))
    assert refused(ErrorCode.MESSAGE_TOO_LARGE) == 1


def test_a_reply_waits_until_its_records_are_committed(lab: Lab) -> None:
    lab.log.commits_at_once = False
    first = lab.ask(writes(0))
    second = lab.ask(writes(1))
    assert [record for record, _, _ in lab.machine.replayed] == [record(0), record(1)]
    assert (first, second) == ([], [])
    lab.log.commit(1)
    assert (first, second) == ([DONE], [])
    lab.log.commit()
    assert second == [DONE]


def test_a_reply_of_a_read_waits_too(lab: Lab) -> None:
    lab.log.commits_at_once = False
    lab.ask(writes(0))
    answers = lab.ask(reads)
    assert answers == []
    lab.log.commit()
    assert answers == [DONE]


def noted(order: list[str], name: str, _: Outcome) -> None:
    order.append(name)


def test_replies_are_sent_in_request_order(lab: Lab) -> None:
    lab.log.commits_at_once = False
    order: list[str] = []
    for name, script in (("write", writes(0)), ("read", reads), ("write again", writes(1))):
        lab.machine.scripts.append(script)
        lab.shard.handle_request(
            HeartbeatRequest(),
            version=4,
            client_id="c",
            client_host="h",
            answer=partial(noted, order, name),
        )
    lab.log.commit()
    assert order == ["write", "read", "write again"]


def test_no_reply_overtakes_one_that_is_about_to_be_sent(lab: Lab) -> None:
    lab.log.commits_at_once = False
    order: list[str] = []

    def commits_meanwhile(event: Event) -> list[Effect]:
        lab.log.commit()
        return [reply(event)]

    for name, script in (("first", writes(0)), ("second", commits_meanwhile)):
        lab.machine.scripts.append(script)
        lab.shard.handle_request(
            HeartbeatRequest(),
            version=4,
            client_id="c",
            client_host="h",
            answer=partial(noted, order, name),
        )
    assert order == ["first", "second"]


def test_a_request_triggered_by_a_reply_comes_after_all_effects(lab: Lab) -> None:
    later: list[Outcome] = []

    def again(_: Outcome) -> None:
        lab.machine.scripts.append(writes(2))
        later.extend(lab.ask())

    lab.machine.scripts.append(lambda event: [reply(event), Append((record(0),))])
    lab.shard.handle_request(
        HeartbeatRequest(), version=4, client_id="c", client_host="h", answer=again
    )
    assert [offset for _, offset, _ in lab.machine.replayed] == [0, 1]
    assert lab.machine.replayed[1][0] == record(2)


def test_when_an_append_fails_nothing_is_replayed_and_later_replies_fail(
    lab: Lab,
) -> None:
    lab.log.append_errors.extend([ErrorCode.NOT_ENOUGH_REPLICAS])
    answers = lab.ask(
        lambda event: [
            Append((record(0),)),
            Append((record(1),)),
            SetTimer(("t",), 0),
            reply(event),
        ]
    )
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert lab.machine.replayed == []
    assert lab.log.batches == []
    assert lab.state() is CoordinatorState.ACTIVE
    lab.pass_time(1)
    assert TimerFired(("t",), lab.clock.now_ms()) in lab.machine.events
    assert lab.ask(writes(2)) == [DONE]


def test_a_reply_before_the_failed_append_is_not_affected(lab: Lab) -> None:
    lab.log.append_errors.extend([ErrorCode.NOT_ENOUGH_REPLICAS])
    assert lab.ask(lambda event: [reply(event), Append((record(0),))]) == [DONE]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_append_errors_are_mapped_to_coordinator_errors(
    lab: Lab, error: ErrorCode, told: ErrorCode
) -> None:
    lab.log.append_errors.append(error)
    assert lab.ask(writes(0)) == [told]


def test_a_commit_that_is_too_large_has_its_own_error(lab: Lab) -> None:
    lab.log.append_errors.append(ErrorCode.MESSAGE_TOO_LARGE)
    answers = lab.ask(writes(0), request=OffsetCommitRequest())
    assert answers == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


def test_a_request_that_failed_gets_no_second_reply(lab: Lab) -> None:
    """The shard may still reply, which must be harmless."""
    lab.log.append_errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    answers = lab.ask(writes(0))
    (asked,) = [event for event in lab.machine.events if isinstance(event, RequestEvent)]
    lab.ask(lambda event: [Reply(asked.caller, DONE), reply(event)])
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_lost_log_fails_all_pending_requests(lab: Lab) -> None:
    waiting = lab.ask(lambda _: [])
    lab.log.append_errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert lab.ask(writes(0)) == [ErrorCode.NOT_COORDINATOR]
    assert waiting == [ErrorCode.NOT_COORDINATOR]
    assert lab.state() is CoordinatorState.FAILED
    assert lab.log.moved is None
    assert lab.ask() == [ErrorCode.NOT_COORDINATOR]


def test_no_effect_is_executed_once_the_log_is_lost(lab: Lab) -> None:
    lab.log.append_errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.ask(lambda event: [Append((record(0),)), SetTimer(("t",), 0), reply(event)])
    the_reload = 1
    assert len(lab.timer) == the_reload


def test_replies_that_wait_for_the_high_watermark_are_dropped_with_the_log(lab: Lab) -> None:
    beyond = cast("Effect", object())
    lab.log.commits_at_once = False
    lab.ask(lambda event: [Append((record(0),)), beyond, reply(event)])
    lab.log.append_errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.ask(writes(1))
    lab.pass_time(1_000)
    assert lab.state() is CoordinatorState.ACTIVE
    lab.log.commit()
    assert lab.performed == []


def test_a_log_that_recovers_is_loaded_again(lab: Lab) -> None:
    lab.ask(writes(0))
    lab.log.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    lab.ask(writes(1))
    lab.pass_time(1_000)
    assert lab.state() is CoordinatorState.ACTIVE
    assert len(lab.machines) == 2
    assert lab.machine.replayed == [(record(0), 0, None)]


def test_external_effects_wait_for_the_high_watermark_too(lab: Lab) -> None:
    # An effect of another shard type, unknown to the runtime.
    beyond = cast("Effect", object())
    lab.log.commits_at_once = False
    lab.ask(lambda event: [Append((record(0),)), beyond, reply(event)])
    assert lab.performed == []
    lab.log.commit()
    assert lab.performed == [beyond]
    lab.log.append_errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    lab.ask(lambda event: [Append((record(0),)), beyond, reply(event)])
    lab.log.commit()
    assert lab.performed == [beyond]


def test_a_timer_fires_at_its_deadline(lab: Lab) -> None:
    at_ms = lab.clock.now_ms() + 50
    lab.ask(lambda event: [SetTimer(("t",), at_ms), reply(event)])
    lab.pass_time(49)
    assert TimerFired(("t",), at_ms) not in lab.machine.events
    lab.pass_time(1)
    assert lab.machine.events[-1] == TimerFired(("t",), at_ms)
    lab.pass_time(1000)
    assert lab.machine.events[-1] == TimerFired(("t",), at_ms)


@pytest.mark.parametrize("moved_by_ms", [-20, 20])
def test_a_timer_that_is_set_again_fires_at_the_new_time_only(lab: Lab, moved_by_ms: int) -> None:
    at_ms = lab.clock.now_ms() + 50
    lab.ask(
        lambda event: [
            SetTimer(("t",), at_ms),
            SetTimer(("t",), at_ms + moved_by_ms),
            reply(event),
        ]
    )
    for _ in range(100):
        lab.pass_time(1)
    fired = [event for event in lab.machine.events if isinstance(event, TimerFired)]
    assert fired == [TimerFired(("t",), at_ms + moved_by_ms)]
    assert len(lab.timer) == 0


def test_a_cancelled_timer_does_not_fire(lab: Lab) -> None:
    at_ms = lab.clock.now_ms() + 50
    lab.ask(
        lambda event: [
            SetTimer(("t",), at_ms),
            CancelTimer(("t",)),
            CancelTimer(("u",)),
            reply(event),
        ]
    )
    lab.pass_time(100)
    assert not [event for event in lab.machine.events if isinstance(event, TimerFired)]
    assert len(lab.timer) == 0


def test_effects_of_a_timer_are_executed(lab: Lab) -> None:
    lab.ask(lambda event: [SetTimer(("t",), 0), reply(event)])
    lab.machine.scripts.append(lambda _: [Append((record(4),))])
    lab.pass_time(1)
    assert lab.machine.replayed == [(record(4), 0, None)]


def test_events_during_loading_are_delivered_afterwards() -> None:
    """Its log may have offsets of a topic that is deleted before they are read (OE-2)."""
    lab = Lab()
    lab.shard.handle_event("early")
    lab.open_error = TooManyOpenFiles("none left")
    lab.load()
    lab.shard.handle_event("not lost either")
    lab.open_error = None
    lab.pass_time(1_000)
    lab.shard.handle_event("in time")
    loaded = Loaded(lab.clock.now_ms())
    assert lab.machine.events == [loaded, "early", "not lost either", "in time"]


def test_a_marker_is_appended_and_applied(lab: Lab) -> None:
    """TX-12."""
    lab.log.commits_at_once = False
    answers: list[Outcome] = []
    lab.shard.end_transaction(
        PRODUCER, coordinator_epoch=4, client_version=0, is_commit=True, answer=answers.append
    )
    assert lab.machine.ended == [(ProducerId(7), True)]
    assert answers == []
    lab.log.commit()
    assert answers == [ErrorCode.NONE]
    (header,) = lab.log.headers()
    assert (header.is_control, header.producer_id, header.producer_epoch) == (True, 7, 2)


def test_a_rejected_marker_is_not_applied(lab: Lab) -> None:
    """TX-6: the transaction coordinator gets the log's error."""
    lab.log.append_errors.append(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    answers: list[Outcome] = []
    lab.shard.end_transaction(
        PRODUCER, coordinator_epoch=4, client_version=0, is_commit=True, answer=answers.append
    )
    assert answers == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert lab.machine.ended == []


def test_a_new_shard_replays_the_whole_log(lab: Lab) -> None:
    for number in range(50):
        lab.ask(writes(number, PRODUCER if number % 7 == 3 else None))
        if number % 10 == 5:
            lab.shard.end_transaction(
                PRODUCER,
                client_version=0,
                coordinator_epoch=4,
                is_commit=number > 20,
                answer=lambda _: None,
            )
    lab.log.leader_epoch = 6
    again = Lab(lab.log).load()
    assert again.machine.leader_epoch == 6
    assert again.machine.replayed == lab.machine.replayed
    assert again.machine.ended == lab.machine.ended
    assert again.machine.events == [Loaded(again.clock.now_ms())]
    assert again.ask(writes(99)) == [DONE]
    assert again.loads_ended == 1


def test_requests_during_loading_are_rejected_as_loading(lab: Lab) -> None:
    """GR-17."""
    lab.ask(lambda event: [Append(tuple(record(n) for n in range(9))), reply(event)])
    lab.ask(writes(9))
    lab.log.is_slow = True
    again = Lab(lab.log)
    assert again.state() is CoordinatorState.QUEUED
    again.load()
    for _ in range(2):
        assert again.state() is CoordinatorState.LOADING
        assert again.ask() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert again.loads_ended == 0
        again.log.waiting.popleft()()
    assert again.state() is CoordinatorState.ACTIVE
    assert again.loads_ended == 1


def test_a_shard_closed_while_loading_ignores_the_rest(lab: Lab) -> None:
    lab.ask(writes(0))
    lab.log.is_slow = True
    again = Lab(lab.log).load()
    again.shard.close()
    assert again.loads_ended == 1
    again.log.waiting.popleft()()
    assert again.machine.replayed == []
    assert again.state() is CoordinatorState.CLOSED


def test_closing_fails_pending_requests(lab: Lab) -> None:
    """GR-17."""
    lab.log.commits_at_once = False
    waiting = lab.ask(lambda _: [SetTimer(("t",), 0)])
    held = lab.ask(writes(0))
    lab.shard.close()
    assert (waiting, held) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR])
    assert lab.shard.waiting_count == 0
    assert len(lab.timer) == 0
    lab.log.commit()
    lab.pass_time(10)
    assert held == [ErrorCode.NOT_COORDINATOR]
    assert lab.ask() == [ErrorCode.NOT_COORDINATOR]
    lab.shard.close()


def test_a_log_that_cannot_be_opened_fails_the_shard() -> None:
    lab = Lab()
    lab.open_error = StorageError("gone")
    lab.load()
    assert lab.state() is CoordinatorState.FAILED
    assert lab.loads_ended == 1
    lab.pass_time(5_000)
    assert lab.state() is CoordinatorState.FAILED


def test_an_unreadable_record_fails_the_shard(lab: Lab) -> None:
    lab.ask(writes(0))
    broken = bytearray(lab.log.batches[0])
    position = broken.index(b"\0\1\0\1g")
    broken[position + 3] = 99
    lab.log.batches[0] = bytes(broken)
    again = Lab(lab.log).load()
    assert again.state() is CoordinatorState.FAILED
    assert again.loads_ended == 1


@pytest.mark.parametrize("error", [QueueFull("full"), TooManyOpenFiles("none left")])
def test_a_load_without_a_free_thread_or_descriptor_is_retried(
    lab: Lab, error: HeadwaterError
) -> None:
    lab.ask(writes(0))
    lab.log.read_error = error
    again = Lab(lab.log).load()
    again.pass_time(1_000)
    assert again.state() is CoordinatorState.FAILED
    lab.log.read_error = None
    again.pass_time(1_000)
    assert again.state() is CoordinatorState.ACTIVE
    assert again.loads_ended == 1


def test_a_log_without_a_free_descriptor_is_opened_as_soon_as_there_is_one() -> None:
    lab = Lab()
    lab.open_error = TooManyOpenFiles("none left")
    lab.load()
    assert lab.state() is CoordinatorState.FAILED
    lab.open_error = None
    lab.pass_time(1_000)
    assert lab.state() is CoordinatorState.ACTIVE


def test_a_failing_shard_is_reloaded(lab: Lab) -> None:
    """Its request gets UNKNOWN_SERVER_ERROR, all others NOT_COORDINATOR, and nothing is lost."""
    lab.ask(writes(0))
    waiting = lab.ask(lambda _: [])

    def trips(_: Event) -> list[Effect]:
        raise AssertionError("an invariant is broken")

    assert lab.ask(trips) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert waiting == [ErrorCode.NOT_COORDINATOR]
    assert lab.state() is CoordinatorState.FAILED
    lab.pass_time(1_000)
    assert lab.state() is CoordinatorState.ACTIVE
    assert lab.machine.replayed == [(record(0), 0, None)]
    assert lab.ask(writes(1)) == [DONE]


def test_a_failing_reply_does_not_affect_the_shard(lab: Lab) -> None:
    def trips(_: Outcome) -> None:
        raise AssertionError("the reply callback failed")

    lab.machine.scripts.append(reads)
    lab.shard.handle_request(
        HeartbeatRequest(), version=4, client_id="c", client_host="h", answer=trips
    )
    assert lab.state() is CoordinatorState.ACTIVE
    assert lab.ask(reads) == [DONE]


def test_an_answer_to_a_discarded_shard_does_not_reach_its_successor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next one has read the log and requests what it needs."""

    def fails(_: Event) -> list[Effect]:
        raise AssertionError("an invariant is broken")

    lab = Lab().load()
    tell = lab.shard.event_handler()
    tell("first")
    lab.ask(fails)
    assert "will be reloaded" in caplog.text
    lab.pass_time(1_000)
    assert lab.state() is CoordinatorState.ACTIVE
    tell("late")
    lab.shard.event_handler()("second")
    assert "late" not in lab.machine.events
    assert lab.machine.events[-1] == "second"
