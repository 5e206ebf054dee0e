"""The transaction shard on its runtime, over a log in memory."""

from headwater.common.ids import ProducerId
from headwater.coordinator.records.record_serde import TRANSACTION_RECORDS
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Effect,
    GenerateProducerId,
    MarkerOutcome,
    MarkersAnswered,
    ProducerIdGenerated,
    SendMarkers,
)
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.coordinator.transaction.transaction_coordinator_shard import (
    ExternalEvent,
    TransactionCoordinatorShard,
)
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from tests.simulation.fakes.in_memory_coordinator_log import InMemoryCoordinatorLog
from tests.simulation.labs.broker_lab import ScriptedClock
from tests.simulation.labs.transaction_lab import SETTINGS, TX


class HostedTransactions:
    """A shard; producer ids are allocated at once, and markers are answered by the test."""

    def __init__(self) -> None:
        self.log = InMemoryCoordinatorLog(TRANSACTION_RECORDS)
        self.clock = ScriptedClock()
        self.sent: list[SendMarkers] = []
        self.restart()

    def restart(self) -> None:
        self.sent.clear()
        self.timer = Timer()
        tools: CoordinatorServices[ExternalEvent] = CoordinatorServices(
            topic="__transaction_state",
            make=self._make,
            codec=TRANSACTION_RECORDS,
            clock=self.clock,
            timer=self.timer,
            perform=self._perform,
        )
        self.hosted = CoordinatorContext(0, lambda: self.log, tools, load_ended=lambda: None)
        self.hosted.load()

    def ask(self, request: Message, version: int = 5) -> list[Outcome]:
        answers: list[Outcome] = []
        self.hosted.handle_request(
            request, version=version, client_id="c", client_host="/h", answer=answers.append
        )
        return answers

    def answer_markers(self) -> None:
        for sending in self.sent:
            outcomes = tuple((each, MarkerOutcome.WRITTEN) for each in sending.partitions)
            self.hosted.handle_event(
                MarkersAnswered(
                    transactional_id=sending.transactional_id,
                    send_id=sending.send_id,
                    outcomes=outcomes,
                    now_ms=self.clock.now_ms(),
                )
            )
        self.sent.clear()

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.timer.expire(self.clock.steady_ms())

    @property
    def label(self) -> str:
        transaction = self.shard.get(TX)
        assert transaction is not None
        return transaction.state.label

    def _make(self, number: int, leader_epoch: int) -> TransactionCoordinatorShard:
        assert number == 0
        self.shard = TransactionCoordinatorShard(lambda: SETTINGS, leader_epoch)
        return self.shard

    def _perform(self, shard: CoordinatorContext[ExternalEvent], effect: Effect) -> None:
        match effect:
            case GenerateProducerId():
                taken = ProducerIdGenerated(effect.asked, ProducerId(9), self.clock.now_ms())
                shard.handle_event(taken)
            case SendMarkers():
                self.sent.append(effect)
            case _:
                raise AssertionError(f"not for the shell: {effect}")
