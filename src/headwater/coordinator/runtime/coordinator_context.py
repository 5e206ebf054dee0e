"""One shard on its partition: it is loaded, hears events, and has its effects carried out.

Events are taken one after the other, also when an answer brings about the next request at once.
What a reader would get wrong is the order within one event: its records are written and replayed
as the effects are gone through, but answers leave when all of them are done, and those that speak
of something uncommitted wait for it (see `headwater.coordinator.runtime.coordinator_effects`).

A shard that fails by our own fault is thrown away and a second later loaded anew from its log,
which has all of its state and nothing of what went wrong.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, TooManyOpenFiles, TooMuchWork
from headwater.common.ports import Clock
from headwater.coordinator.records.record_serde import RecordSerde
from headwater.coordinator.runtime.append_errors import ends_leadership
from headwater.coordinator.runtime.append_timeouts import AppendTimeouts
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Asked,
    Caller,
    CancelTimer,
    Effect,
    Loaded,
    Reply,
    SetTimer,
    TimerFired,
    TimerKey,
    TransactionalProducer,
    sees_all,
)
from headwater.coordinator.runtime.coordinator_loader import CoordinatorLoader
from headwater.coordinator.runtime.coordinator_log import CoordinatorLog
from headwater.coordinator.runtime.coordinator_shard import CoordinatorShard
from headwater.coordinator.runtime.coordinator_state import REFUSALS, TRANSITIONS, CoordinatorState
from headwater.coordinator.runtime.coordinator_timer import CoordinatorTimer
from headwater.coordinator.runtime.event_turns import EventTurns
from headwater.coordinator.runtime.pending_responses import Answer, PendingResponses
from headwater.coordinator.runtime.record_batches import batch_of, marker_of
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.replication.transaction_verification import VerificationGuard

_log = logging.getLogger(__name__)

Told = TypeVar("Told")

_RELOAD: Final[TimerKey] = ("load again",)
_RELOAD_MS: Final = 1_000
_SAID_EVERY_MS: Final = 60_000
_UNTOLD_LIMIT: Final = 10_000
"""Of a shard that cannot be loaded for long, the oldest news is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorServices(Generic[Told]):
    """What the shards of one topic share."""

    topic: str
    make: Callable[[int, int], CoordinatorShard[Told]]
    """A fresh machine for a partition and its leader epoch."""
    codec: RecordSerde
    clock: Clock
    timer: Timer
    perform: Callable[[CoordinatorContext[Told], Effect], None]
    """Carries out effects that reach beyond the shard, once all before them is committed."""
    write_timeout_ms: int | None = None
    """How long an answer may wait for replicas that have yet to take what it tells."""


class CoordinatorContext(Generic[Told]):
    """See the module. For the loop's thread only."""

    def __init__(
        self,
        number: int,
        open_log: Callable[[], CoordinatorLog],
        tools: CoordinatorServices[Told],
        *,
        load_ended: Callable[[], None],
    ) -> None:
        self.number = number
        self.state = CoordinatorState.QUEUED
        self._open_log = open_log
        self._tools = tools
        self._load_ended = load_ended
        self._log: CoordinatorLog | None = None
        self._shard: CoordinatorShard[Told] | None = None
        self._loading: CoordinatorLoader | None = None
        self._timers = CoordinatorTimer(tools.timer, tools.clock, self._timer_fired)
        self._overdue = AppendTimeouts(
            tools.timer,
            tools.clock,
            tools.write_timeout_ms,
            lambda: self._turns.run(self._answer_late),
        )
        self._holds_slot = False
        self._pending = PendingResponses()
        # What waits for an offset to be committed, in the order of the offsets.
        self._held: deque[tuple[int, Callable[[], None]]] = deque()
        self._turns = EventTurns(
            step_failed=self._step_failed, departure_failed=self._delivery_failed
        )
        # What has happened since the log was last read into a machine, or before it ever was.
        self._untold: deque[Told] = deque(maxlen=_UNTOLD_LIMIT)
        self._asking: Caller | None = None
        self._ticket: VerificationGuard | None = None
        # Why nothing could be written last, and when that was said.
        self._refusal: ErrorCode | None = None
        self._said_ms = 0

    @property
    def name(self) -> str:
        return f"{self._tools.topic}-{self.number}"

    @property
    def topic(self) -> str:
        return self._tools.topic

    @property
    def waiting_count(self) -> int:
        """Requests without an answer."""
        return len(self._pending)

    def load(self) -> None:
        """Begin with an empty machine, and replay the log into it."""
        self._holds_slot = True
        self._turns.run(self._begin_load)

    def ask(
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
        """Have a request decided; it is answered once, with a response or with an error.

        A ticket lets it write into a producer's transaction that is not open here yet (TX-13).
        `sees` says of which topics it may hear.
        """
        caller = self._pending.note(request.api, answer)

        def step() -> None:
            self._asking, self._ticket = caller, ticket
            self._decide(
                Asked(
                    request=request,
                    version=version,
                    caller=caller,
                    client_id=client_id,
                    client_host=client_host,
                    now_ms=self._tools.clock.now_ms(),
                    sees=sees,
                )
            )
            self._asking = self._ticket = None

        self._turns.run(partial(self._if_active, caller, step))

    def tell(self, event: Told) -> None:
        """Something has happened that the machine should know. One that is not loaded hears it
        then: its log may speak of what is no more, a topic's offsets for instance.
        """

        def step() -> None:
            if self.state is CoordinatorState.ACTIVE:
                self._decide(event)
            elif self.state is not CoordinatorState.CLOSED:
                self._untold.append(event)

        self._turns.run(step)

    def hearing(self) -> Callable[[Told], None]:
        """As `tell`, for answers to what the present machine has ordered, and for it only."""
        machine = self._machine

        def tell(event: Told) -> None:
            if self._shard is machine:
                self.tell(event)

        return tell

    def end_transaction(
        self,
        producer: TransactionalProducer,
        *,
        coordinator_epoch: int,
        client_version: int,
        is_commit: bool,
        answer: Answer,
    ) -> None:
        """Write a transaction's marker and obey it; ErrorCode.NONE when it is committed (TX-6)."""
        caller = self._pending.note(ApiKey.WRITE_TXN_MARKERS, answer)

        def step() -> None:
            now_ms = self._tools.clock.now_ms()
            marker = marker_of(producer, coordinator_epoch, is_commit=is_commit, now_ms=now_ms)
            outcome = self._serving_log.append_marker(marker, producer, client_version, now_ms)
            if isinstance(outcome, ErrorCode):
                self._append_failed(outcome)
                self._pending.give(caller, outcome)
                return
            self._machine.end_transaction(producer.producer_id, is_commit=is_commit)
            self._hold(partial(self._pending.give, caller, ErrorCode.NONE))

        self._turns.run(partial(self._if_active, caller, step))

    def close(self) -> None:
        """Another broker coordinates from now on, or none (GR-17)."""
        self._turns.run(partial(self._leave, CoordinatorState.CLOSED))

    # Loading, and the end.

    def _begin_load(self) -> None:
        if self.state not in (CoordinatorState.QUEUED, CoordinatorState.FAILED):
            return
        self._go(CoordinatorState.LOADING)
        try:
            log = self._open_log()
        except HeadwaterError as error:
            self._load_over(error)
            return
        log.watch(self._moved)
        shard = self._tools.make(self.number, log.leader_epoch)
        self._log, self._shard = log, shard
        self._loading = CoordinatorLoader(
            self.name, log, shard, lambda error: self._turns.run(partial(self._load_over, error))
        )
        self._loading.advance()

    def _load_over(self, error: Exception | None) -> None:
        if self.state is not CoordinatorState.LOADING:
            return
        if error is not None:
            _log.error("%s cannot be loaded: %s", self.name, error, exc_info=_traceback(error))
            self._leave(CoordinatorState.FAILED)
            if isinstance(error, TooMuchWork | TooManyOpenFiles):
                # The log is well, and somebody gives back soon what was missing.
                self._load_later()
            return
        self._free_slot()
        effects = self._machine.decide(Loaded(self._tools.clock.now_ms()))
        self._go(CoordinatorState.ACTIVE)
        self._carry_out(effects)
        self._hear_the_untold()

    def _hear_the_untold(self) -> None:
        while self._untold and self.state is CoordinatorState.ACTIVE:
            self._decide(self._untold.popleft())

    def _load_later(self) -> None:
        self._timers.set(_RELOAD, self._tools.clock.now_ms() + _RELOAD_MS)

    def _leave(self, state: CoordinatorState) -> None:
        """Forget everything; whoever waits is sent to look for the coordinator."""
        if self.state is CoordinatorState.CLOSED:
            return
        self._go(state)
        if self._log is not None:
            self._log.unwatch()
        self._log = self._shard = None
        self._timers.clear()
        self._held.clear()
        self._overdue.clear()
        for caller in self._pending:
            self._turns.let_go(partial(self._pending.give, caller, ErrorCode.NOT_COORDINATOR))
        self._free_slot()

    def _free_slot(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if self._holds_slot:
            self._holds_slot = False
            self._load_ended()

    def _go(self, state: CoordinatorState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.name} from {self.state} to {state}"
        self.state = state

    @property
    def _machine(self) -> CoordinatorShard[Told]:
        assert self._shard is not None, f"{self.name} is {self.state.value}"
        return self._shard

    @property
    def _serving_log(self) -> CoordinatorLog:
        assert self._log is not None, f"{self.name} is {self.state.value}"
        return self._log

    # Events, one at a time.

    def _delivery_failed(self) -> None:
        _log.exception("an answer of %s could not be given", self.name)

    def _step_failed(self) -> None:
        _log.exception("%s failed, and is thrown away", self.name)
        if self._asking is not None:
            self._turns.let_go(
                partial(self._pending.give, self._asking, ErrorCode.UNKNOWN_SERVER_ERROR)
            )
            self._asking = self._ticket = None
        if self.state is CoordinatorState.ACTIVE:
            self._leave(CoordinatorState.FAILED)
            self._load_later()
        elif self.state is CoordinatorState.LOADING:
            self._leave(CoordinatorState.FAILED)

    def _if_active(self, caller: Caller, step: Callable[[], None]) -> None:
        if self.state is CoordinatorState.ACTIVE:
            step()
        else:
            self._pending.give(caller, REFUSALS[self.state])

    def _timer_fired(self, key: TimerKey) -> None:
        def step() -> None:
            if self.state is CoordinatorState.ACTIVE:
                self._decide(TimerFired(key, self._tools.clock.now_ms()))
            elif self.state is CoordinatorState.FAILED and key == _RELOAD:
                self._begin_load()

        self._turns.run(step)

    def _moved(self) -> None:
        """Something more is committed."""
        if self._held:
            self._turns.run(self._release)

    # Effects, in their order.

    def _decide(self, event: Asked | TimerFired | Loaded | Told) -> None:
        self._carry_out(self._machine.decide(event))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        failure: ErrorCode | None = None
        for effect in effects:
            if self.state is not CoordinatorState.ACTIVE:
                # A failed append has ended it, and everybody who waits has heard of that.
                return
            match effect:
                case Append():
                    failure = failure or self._append(effect)
                case Reply():
                    outcome = effect.response if failure is None else failure
                    if self._hold(partial(self._pending.give, effect.to, outcome)):
                        self._overdue.add(effect.to)
                case SetTimer():
                    self._timers.set(effect.key, effect.deadline_ms)
                case CancelTimer():
                    self._timers.cancel(effect.key)
                case _:
                    if failure is None:
                        self._hold(partial(self._tools.perform, self, effect))

    def _append(self, effect: Append) -> ErrorCode | None:
        """Write the records and replay them; why they were not written, if they were not."""
        if not effect.records:
            return None
        now_ms = self._tools.clock.now_ms()
        batch = batch_of(effect.records, self._tools.codec, effect.producer, now_ms=now_ms)
        log, producer = self._serving_log, effect.producer
        if producer is None:
            outcome = log.append(batch, now_ms)
        else:
            outcome = log.append_in_transaction(batch, producer, self._ticket, now_ms)
        if isinstance(outcome, ErrorCode):
            self._append_failed(outcome)
            return outcome
        self._refusal = None
        producer_id = producer.producer_id if producer is not None else None
        for offset, record in enumerate(effect.records, outcome):
            self._machine.replay(record, offset=offset, producer_id=producer_id)
        return None

    def _append_failed(self, error: ErrorCode) -> None:
        now_ms = self._tools.clock.steady_ms()
        if error is not self._refusal or now_ms >= self._said_ms + _SAID_EVERY_MS:
            _log.warning("%s could not be written to: %s", self.name, error.name)
            self._refusal, self._said_ms = error, now_ms
        if ends_leadership(error):
            self._leave(CoordinatorState.FAILED)
            self._load_later()

    def _hold(self, action: Callable[[], None]) -> bool:
        """Do this when all that has been written so far is committed; False if it is by now."""
        log = self._log
        if self._held or (log is not None and log.committed_offset < log.end_offset):
            assert log is not None
            self._held.append((log.end_offset, action))
            return True
        self._turns.let_go(action)
        return False

    def _release(self) -> None:
        if self._log is not None:
            committed = self._log.committed_offset
            while self._held and self._held[0][0] <= committed:
                self._turns.let_go(self._held.popleft()[1])
        if not self._held:
            self._overdue.clear()

    def _answer_late(self) -> None:
        for caller in self._overdue.late():
            self._pending.give(caller, ErrorCode.REQUEST_TIMED_OUT)


def _traceback(error: Exception) -> Exception | None:
    """Worth telling only where the fault is ours."""
    return None if isinstance(error, HeadwaterError) else error
