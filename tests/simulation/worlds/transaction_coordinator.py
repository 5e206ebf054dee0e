"""The real shard in the simulator: log, timers, and crashes that lose uncommitted records.

An append is committed some time later, and until then a crash may remove it and everything behind
it. Replies and markers wait for the commit; that is what the simulator tests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.common.ids import ProducerId
from headwater.coordinator.records.record_serde import TRANSACTION_RECORDS
from headwater.coordinator.records.transaction_records import TransactionLogRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    CancelTimer,
    Effect,
    GenerateProducerId,
    Loaded,
    MarkersAnswered,
    ProducerIdGenerated,
    Reply,
    RequestEvent,
    SendMarkers,
    SetTimer,
    TimerFired,
    TimerKey,
)
from headwater.coordinator.transaction.transaction_coordinator_shard import (
    Event,
    TransactionCoordinatorShard,
)
from headwater.coordinator.transaction.transaction_settings import TransactionSettings
from headwater.protocol.older_versions import Message
from tests.simulation.worlds.transaction_network import World

EncodedRecord = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the coordinator, in some version."""

    request: Message
    version: int


@dataclass(slots=True)
class SimCoordinator:
    """One shard on one broker that crashes at times and is loaded again."""

    world: World
    settings: TransactionSettings
    send_markers: Callable[[SendMarkers, Callable[[MarkersAnswered], None]], None]
    append_failures: float = 0.02
    log: list[EncodedRecord] = field(default_factory=list)
    next_producer_id: int = 1_000
    life: int = 0
    is_up: bool = False
    _shard: TransactionCoordinatorShard = field(init=False)
    _asked: int = 0
    _committed: int = 0
    _waiting: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    _callers: dict[int, Callable[[Message], None]] = field(default_factory=dict)
    _timers: dict[TimerKey, int] = field(default_factory=dict)

    def start(self) -> None:
        """Load the log under a new coordinator epoch."""
        self.life += 1
        self.is_up = True
        self._shard = TransactionCoordinatorShard(lambda: self.settings, self.life)
        self._committed = len(self.log)
        self._waiting, self._callers, self._timers = [], {}, {}
        for offset, each in enumerate(self.log):
            self._shard.replay(decoded(each), offset=offset, producer_id=None)
        self.handle(Loaded(self.world.now_ms))

    def crash(self) -> None:
        """Lose some of what is not committed."""
        kept = self.world.rng.randint(self._committed, len(self.log))
        self.world.say(f"coordinator dies, {len(self.log) - kept} records are lost")
        del self.log[kept:]
        self.is_up = False

    def serve(self, ask: Ask, answer: Callable[[Message], None]) -> None:
        if not self.is_up:
            return
        self._asked += 1
        caller = self._asked
        self._callers[caller] = answer
        self.handle(
            RequestEvent(
                request=ask.request,
                version=ask.version,
                caller=Caller(caller),
                client_id="sim",
                client_host="sim",
                now_ms=self.world.now_ms,
            )
        )

    def handle(self, event: Event) -> None:
        effects = self._shard.decide(event)
        for effect in effects:
            if not self._carry_out(effect):
                return

    @property
    def has_uncommitted(self) -> bool:
        return self._committed < len(self.log)

    @property
    def states(self) -> dict[str, str]:
        """The state of every transactional id in the log."""
        ids = dict.fromkeys(decoded(each).key.transactional_id for each in self.log)
        known = {each: self._shard.get(each) for each in ids}
        return {each: state.state.label for each, state in known.items() if state is not None}

    def _carry_out(self, effect: Effect) -> bool:
        """False if an append failed, and with it what follows."""
        match effect:
            case Append():
                if self.world.happens(self.append_failures):
                    self.world.say("an append fails")
                    return False
                self._append(effect)
            case Reply():
                answer = self._callers.pop(effect.to)
                self._when_committed(lambda: answer(effect.response))
            case SendMarkers():
                self._when_committed(lambda: self._send(effect))
            case SetTimer():
                self._set_timer(effect)
            case CancelTimer():
                self._timers.pop(effect.key, None)
            case GenerateProducerId():
                self._take_producer_id(effect)
        return True

    def _append(self, effect: Append) -> None:
        for record in effect.records:
            assert isinstance(record, TransactionLogRecord)
            self.log.append(encoded(record))
            self.world.say(f"record {_told(record)}")
            self._shard.replay(record, offset=len(self.log) - 1, producer_id=None)
        end = len(self.log)
        # Sometimes a follower lags behind.
        limit_ms = 1_500 if self.world.happens(0.1) else 30
        self._later(self.world.rng.randint(0, limit_ms), lambda: self._commit(end))

    def _commit(self, end: int) -> None:
        self._committed = max(self._committed, end)
        ready = [act for position, act in self._waiting if position <= self._committed]
        self._waiting = [each for each in self._waiting if each[0] > self._committed]
        for act in ready:
            act()

    def _when_committed(self, act: Callable[[], None]) -> None:
        if self._committed >= len(self.log):
            act()
        else:
            self._waiting.append((len(self.log), act))

    def _send(self, sending: SendMarkers) -> None:
        life = self.life

        def answered(event: MarkersAnswered) -> None:
            if self.is_up and self.life == life:
                self.handle(event)

        self.send_markers(sending, answered)

    def _set_timer(self, timer: SetTimer) -> None:
        self._timers[timer.key] = timer.deadline_ms

        def fire() -> None:
            if self._timers.get(timer.key) == timer.deadline_ms:
                self.handle(TimerFired(timer.key, self.world.now_ms))

        # Late, and sometimes twice.
        late_ms = self.world.rng.randint(0, 20)
        self._later(timer.deadline_ms - self.world.now_ms + late_ms, fire)
        if self.world.happens(0.1):
            self._later(timer.deadline_ms - self.world.now_ms + 2 * late_ms, fire)

    def _take_producer_id(self, effect: GenerateProducerId) -> None:
        self.next_producer_id += 1
        taken = ProducerId(self.next_producer_id)
        self._later(
            self.world.rng.randint(0, 50),
            lambda: self.handle(ProducerIdGenerated(effect.asked, taken, self.world.now_ms)),
        )

    def _later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Ends with the process."""
        life = self.life

        def if_alive() -> None:
            if self.is_up and self.life == life:
                act()

        self.world.after(max(delay_ms, 0), if_alive)


def decoded(record: EncodedRecord) -> TransactionLogRecord:
    read = TRANSACTION_RECORDS.decode(*record)
    assert isinstance(read, TransactionLogRecord)
    return read


def encoded(record: TransactionLogRecord) -> EncodedRecord:
    return TRANSACTION_RECORDS.encode(record)


def _told(record: TransactionLogRecord) -> str:
    value = record.value
    assert value is not None, "nothing expires in the time that a run takes"
    return (
        f"{record.key.transactional_id} {value.producer_id}/{value.producer_epoch} "
        f"state {value.transaction_status}"
    )
