"""One coordinator shard on its partition: loading, events and effects.

Events are processed one after the other, even if a reply triggers the next request at once.

Note: the order within one event. Records are appended and replayed as the effects are executed, but
replies are sent after all of them, and a reply that depends on something uncommitted waits for it
(see `coordinator_effects`).

A shard that fails by a bug is discarded and loaded again from its log a second later. The log
contains all of its state.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, QueueFull, TooManyOpenFiles
from headwater.common.latency_histogram import LatencyHistogram
from headwater.common.ports import Clock
from headwater.coordinator.records.record_serde import RecordSerde
from headwater.coordinator.runtime.append_errors import ends_leadership
from headwater.coordinator.runtime.append_timeouts import AppendTimeouts
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    CancelTimer,
    Effect,
    Loaded,
    Reply,
    RequestEvent,
    SetTimer,
    TimerFired,
    TimerKey,
    TransactionalProducer,
    sees_all,
)
from headwater.coordinator.runtime.coordinator_loader import CoordinatorLoader
from headwater.coordinator.runtime.coordinator_log import CoordinatorLog
from headwater.coordinator.runtime.coordinator_shard import CoordinatorShard
from headwater.coordinator.runtime.coordinator_state import (
    ERRORS_BY_STATE,
    TRANSITIONS,
    CoordinatorState,
)
from headwater.coordinator.runtime.coordinator_timer import CoordinatorTimer
from headwater.coordinator.runtime.event_queue import EventQueue
from headwater.coordinator.runtime.pending_responses import Answer, PendingResponses
from headwater.coordinator.runtime.record_batches import batch_of, marker_of
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.replication.transaction_verification import VerificationGuard

_log = logging.getLogger(__name__)

ExternalEvent = TypeVar("ExternalEvent")

_RELOAD: Final[TimerKey] = ("load again",)
_RELOAD_MS: Final = 1_000
_LOG_EVERY_MS: Final = 60_000
_MAX_PENDING_EVENTS: Final = 10_000
"""Events kept for a shard that is not loaded; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorServices(Generic[ExternalEvent]):
    """What the shards of one topic share."""

    topic: str
    make: Callable[[int, int], CoordinatorShard[ExternalEvent]]
    """Creates a shard for a partition and its leader epoch."""
    codec: RecordSerde
    clock: Clock
    timer: Timer
    perform: Callable[[CoordinatorContext[ExternalEvent], Effect], None]
    """Executes effects outside the shard, once everything before them is committed."""
    write_timeout_ms: int | None = None
    """How long a reply may wait for replication."""
    load_times: LatencyHistogram = field(default_factory=LatencyHistogram)
    """How long loading a shard took, without failed loads."""


class CoordinatorContext(Generic[ExternalEvent]):
    """Used on the event loop's thread only."""

    def __init__(
        self,
        number: int,
        open_log: Callable[[], CoordinatorLog],
        services: CoordinatorServices[ExternalEvent],
        *,
        load_ended: Callable[[], None],
    ) -> None:
        self.number = number
        self.state = CoordinatorState.QUEUED
        self._open_log = open_log
        self._services = services
        self._load_ended = load_ended
        self._log: CoordinatorLog | None = None
        self._shard: CoordinatorShard[ExternalEvent] | None = None
        self._loading: CoordinatorLoader | None = None
        self._load_began_ms = 0
        self._timers = CoordinatorTimer(services.timer, services.clock, self._timer_fired)
        self._append_timeouts = AppendTimeouts(
            services.timer,
            services.clock,
            services.write_timeout_ms,
            lambda: self._events.run(self._expire_appends),
        )
        self._holds_slot = False
        self._pending = PendingResponses()
        # Actions that wait for an offset to be committed, in offset order.
        self._deferred: deque[tuple[int, Callable[[], None]]] = deque()
        self._events = EventQueue(
            step_failed=self._step_failed, deferred_failed=self._delivery_failed
        )
        # Events that arrived while no shard was loaded.
        self._pending_events: deque[ExternalEvent] = deque(maxlen=_MAX_PENDING_EVENTS)
        self._current_caller: Caller | None = None
        self._guard: VerificationGuard | None = None
        # The last append error, and when it was logged.
        self._last_error: ErrorCode | None = None
        self._logged_ms = 0

    @property
    def name(self) -> str:
        return f"{self._services.topic}-{self.number}"

    @property
    def topic(self) -> str:
        return self._services.topic

    @property
    def active_shard(self) -> CoordinatorShard[ExternalEvent] | None:
        """The shard, for metrics; None while it is not loaded."""
        return self._shard if self.state is CoordinatorState.ACTIVE else None

    @property
    def waiting_count(self) -> int:
        """Number of pending requests."""
        return len(self._pending)

    def load(self) -> None:
        """Create a shard and replay the log into it."""
        self._holds_slot = True
        self._events.run(self._begin_load)

    def handle_request(
        self,
        request: Message,
        *,
        version: int,
        client_id: str,
        client_host: str,
        answer: Answer,
        ticket: VerificationGuard | None = None,
        sees: Callable[[str], bool] = sees_all,
    ) -> None:
        """Process a request; `answer` is called once with a response or an error.

        `ticket` is the guard that allows it to open a producer's transaction here (TX-13). `sees`
        returns whether the client is authorized to see a topic.
        """
        caller = self._pending.add(request.api, answer)

        def step() -> None:
            self._current_caller, self._guard = caller, ticket
            self._decide(
                RequestEvent(
                    request=request,
                    version=version,
                    caller=caller,
                    client_id=client_id,
                    client_host=client_host,
                    now_ms=self._services.clock.now_ms(),
                    sees=sees,
                )
            )
            self._current_caller = self._guard = None

        self._events.run(partial(self._if_active, caller, step))

    def handle_event(self, event: ExternalEvent) -> None:
        """Pass an event to the shard, or keep it until the shard is loaded.

        Its log may contain state that the event makes obsolete, such as offsets of a deleted topic.
        """

        def step() -> None:
            if self.state is CoordinatorState.ACTIVE:
                self._decide(event)
            elif self.state is not CoordinatorState.CLOSED:
                self._pending_events.append(event)

        self._events.run(step)

    def event_handler(self) -> Callable[[ExternalEvent], None]:
        """Like `handle_event`, but only for the current shard, for answers to its effects."""
        shard = self._loaded_shard

        def handle_event(event: ExternalEvent) -> None:
            if self._shard is shard:
                self.handle_event(event)

        return handle_event

    def end_transaction(
        self,
        producer: TransactionalProducer,
        *,
        coordinator_epoch: int,
        client_version: int,
        is_commit: bool,
        answer: Answer,
    ) -> None:
        """Append a transaction marker and apply it; ErrorCode.NONE when committed (TX-6)."""
        caller = self._pending.add(ApiKey.WRITE_TXN_MARKERS, answer)

        def step() -> None:
            now_ms = self._services.clock.now_ms()
            marker = marker_of(producer, coordinator_epoch, is_commit=is_commit, now_ms=now_ms)
            outcome = self._serving_log.append_marker(marker, producer, client_version, now_ms)
            if isinstance(outcome, ErrorCode):
                self._append_failed(outcome)
                self._pending.complete(caller, outcome)
                return
            self._loaded_shard.end_transaction(producer.producer_id, is_commit=is_commit)
            self._defer(partial(self._pending.complete, caller, ErrorCode.NONE))

        self._events.run(partial(self._if_active, caller, step))

    def close(self) -> None:
        """This broker does not coordinate the partition any more (GR-17)."""
        self._events.run(partial(self._unload, CoordinatorState.CLOSED))

    # Load and unload.

    def _begin_load(self) -> None:
        if self.state not in (CoordinatorState.QUEUED, CoordinatorState.FAILED):
            return
        self._transition(CoordinatorState.LOADING)
        self._load_began_ms = self._services.clock.steady_ms()
        try:
            log = self._open_log()
        except HeadwaterError as error:
            self._finish_load(error)
            return
        log.watch(self._moved)
        shard = self._services.make(self.number, log.leader_epoch)
        self._log, self._shard = log, shard
        self._loading = CoordinatorLoader(
            self.name, log, shard, lambda error: self._events.run(partial(self._finish_load, error))
        )
        self._loading.advance()

    def _finish_load(self, error: Exception | None) -> None:
        if self.state is not CoordinatorState.LOADING:
            return
        if error is not None:
            _log.error(
                "Loading coordinator shard failed: shard=%s error=%s",
                self.name,
                error,
                exc_info=_traceback(error),
            )
            self._unload(CoordinatorState.FAILED)
            if isinstance(error, QueueFull | TooManyOpenFiles):
                # The log is fine; the missing resource will be available soon.
                self._load_later()
            return
        self._free_slot()
        took_ms = self._services.clock.steady_ms() - self._load_began_ms
        self._services.load_times.record(took_ms * 1_000_000)
        effects = self._loaded_shard.decide(Loaded(self._services.clock.now_ms()))
        self._transition(CoordinatorState.ACTIVE)
        self._execute(effects)
        self._process_pending_events()

    def _process_pending_events(self) -> None:
        while self._pending_events and self.state is CoordinatorState.ACTIVE:
            self._decide(self._pending_events.popleft())

    def _load_later(self) -> None:
        self._timers.set(_RELOAD, self._services.clock.now_ms() + _RELOAD_MS)

    def _unload(self, state: CoordinatorState) -> None:
        """Drop the shard; pending requests fail with NOT_COORDINATOR."""
        if self.state is CoordinatorState.CLOSED:
            return
        self._transition(state)
        if self._log is not None:
            self._log.unwatch()
        self._log = self._shard = None
        self._timers.clear()
        self._deferred.clear()
        self._append_timeouts.clear()
        for caller in self._pending:
            self._events.defer(partial(self._pending.complete, caller, ErrorCode.NOT_COORDINATOR))
        self._free_slot()

    def _free_slot(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if self._holds_slot:
            self._holds_slot = False
            self._load_ended()

    def _transition(self, state: CoordinatorState) -> None:
        assert state in TRANSITIONS[self.state], (
            f"invalid transition of {self.name}: {self.state} to {state}"
        )
        self.state = state

    @property
    def _loaded_shard(self) -> CoordinatorShard[ExternalEvent]:
        assert self._shard is not None, f"{self.name} is {self.state.value}"
        return self._shard

    @property
    def _serving_log(self) -> CoordinatorLog:
        assert self._log is not None, f"{self.name} is {self.state.value}"
        return self._log

    # Events.

    def _delivery_failed(self) -> None:
        _log.exception("Sending a reply failed: shard=%s", self.name)

    def _step_failed(self) -> None:
        _log.exception("Coordinator shard failed and will be reloaded: shard=%s", self.name)
        if self._current_caller is not None:
            self._events.defer(
                partial(
                    self._pending.complete, self._current_caller, ErrorCode.UNKNOWN_SERVER_ERROR
                )
            )
            self._current_caller = self._guard = None
        if self.state is CoordinatorState.ACTIVE:
            self._unload(CoordinatorState.FAILED)
            self._load_later()
        elif self.state is CoordinatorState.LOADING:
            self._unload(CoordinatorState.FAILED)

    def _if_active(self, caller: Caller, step: Callable[[], None]) -> None:
        if self.state is CoordinatorState.ACTIVE:
            step()
        else:
            self._pending.complete(caller, ERRORS_BY_STATE[self.state])

    def _timer_fired(self, key: TimerKey) -> None:
        def step() -> None:
            if self.state is CoordinatorState.ACTIVE:
                self._decide(TimerFired(key, self._services.clock.now_ms()))
            elif self.state is CoordinatorState.FAILED and key == _RELOAD:
                self._begin_load()

        self._events.run(step)

    def _moved(self) -> None:
        """The committed offset advanced."""
        if self._deferred:
            self._events.run(self._run_committed)

    # Effects.

    def _decide(self, event: RequestEvent | TimerFired | Loaded | ExternalEvent) -> None:
        self._execute(self._loaded_shard.decide(event))

    def _execute(self, effects: Sequence[Effect]) -> None:
        failure: ErrorCode | None = None
        for effect in effects:
            if self.state is not CoordinatorState.ACTIVE:
                # A failed append ended the shard, and its pending requests have failed.
                return
            match effect:
                case Append():
                    failure = failure or self._append(effect)
                case Reply():
                    outcome = effect.response if failure is None else failure
                    if self._defer(partial(self._pending.complete, effect.to, outcome)):
                        self._append_timeouts.add(effect.to)
                case SetTimer():
                    self._timers.set(effect.key, effect.deadline_ms)
                case CancelTimer():
                    self._timers.cancel(effect.key)
                case _:
                    if failure is None:
                        self._defer(partial(self._services.perform, self, effect))

    def _append(self, effect: Append) -> ErrorCode | None:
        """Append and replay records; return the error if they were not appended."""
        if not effect.records:
            return None
        now_ms = self._services.clock.now_ms()
        batch = batch_of(effect.records, self._services.codec, effect.producer, now_ms=now_ms)
        log, producer = self._serving_log, effect.producer
        if producer is None:
            outcome = log.append(batch, now_ms)
        else:
            outcome = log.append_in_transaction(batch, producer, self._guard, now_ms)
        if isinstance(outcome, ErrorCode):
            self._append_failed(outcome)
            return outcome
        self._last_error = None
        producer_id = producer.producer_id if producer is not None else None
        for offset, record in enumerate(effect.records, outcome):
            self._loaded_shard.replay(record, offset=offset, producer_id=producer_id)
        return None

    def _append_failed(self, error: ErrorCode) -> None:
        now_ms = self._services.clock.steady_ms()
        if error is not self._last_error or now_ms >= self._logged_ms + _LOG_EVERY_MS:
            _log.warning(
                "Append to coordinator log failed: shard=%s error=%s", self.name, error.name
            )
            self._last_error, self._logged_ms = error, now_ms
        if ends_leadership(error):
            self._unload(CoordinatorState.FAILED)
            self._load_later()

    def _defer(self, action: Callable[[], None]) -> bool:
        """Run an action once everything so far is committed; False if it already is."""
        log = self._log
        if self._deferred or (log is not None and log.committed_offset < log.end_offset):
            assert log is not None
            self._deferred.append((log.end_offset, action))
            return True
        self._events.defer(action)
        return False

    def _run_committed(self) -> None:
        if self._log is not None:
            committed = self._log.committed_offset
            while self._deferred and self._deferred[0][0] <= committed:
                self._events.defer(self._deferred.popleft()[1])
        if not self._deferred:
            self._append_timeouts.clear()

    def _expire_appends(self) -> None:
        for caller in self._append_timeouts.expired():
            self._pending.complete(caller, ErrorCode.REQUEST_TIMED_OUT)


def _traceback(error: Exception) -> Exception | None:
    """Log the traceback only for bugs."""
    return None if isinstance(error, HeadwaterError) else error
