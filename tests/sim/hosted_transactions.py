"""The shard of transactions on the runtime that hosts it, over a log in memory."""

from headwater.coordinator.effects import (
    Effect,
    MarkerOutcome,
    MarkersAnswered,
    ProducerIdTaken,
    SendMarkers,
    TakeProducerId,
)
from headwater.coordinator.hosted_shard import HostedShard, ShardTools
from headwater.coordinator.pending_answers import Outcome
from headwater.coordinator.records.codec import TRANSACTION_RECORDS
from headwater.coordinator.transactions.transaction_shard import Told, TransactionShard
from headwater.model.ids import ProducerId
from headwater.replication.deadlines import Deadlines
from headwater.wire.lifting import Message
from tests.sim.broker_lab import ScriptedClock
from tests.sim.sketch_shard_log import SketchShardLog
from tests.sim.transaction_lab import SETTINGS, TX


class HostedTransactions:
    """A hosted shard; producer ids come at once, and markers are answered by hand."""

    def __init__(self) -> None:
        self.log = SketchShardLog(TRANSACTION_RECORDS)
        self.clock = ScriptedClock()
        self.sent: list[SendMarkers] = []
        self.restart()

    def restart(self) -> None:
        self.sent.clear()
        self.deadlines = Deadlines()
        tools: ShardTools[Told] = ShardTools(
            topic="__transaction_state",
            make=self._make,
            codec=TRANSACTION_RECORDS,
            clock=self.clock,
            deadlines=self.deadlines,
            perform=self._perform,
        )
        self.hosted = HostedShard(0, lambda: self.log, tools, load_ended=lambda: None)
        self.hosted.load()

    def ask(self, request: Message, version: int = 5) -> list[Outcome]:
        answers: list[Outcome] = []
        self.hosted.ask(
            request, version=version, client_id="c", client_host="/h", answer=answers.append
        )
        return answers

    def answer_markers(self) -> None:
        for sending in self.sent:
            outcomes = tuple((each, MarkerOutcome.WRITTEN) for each in sending.partitions)
            self.hosted.tell(
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
        self.deadlines.expire(self.clock.steady_ms())

    @property
    def label(self) -> str:
        transaction = self.shard.get(TX)
        assert transaction is not None
        return transaction.state.label

    def _make(self, number: int, leader_epoch: int) -> TransactionShard:
        assert number == 0
        self.shard = TransactionShard(lambda: SETTINGS, leader_epoch)
        return self.shard

    def _perform(self, shard: HostedShard[Told], effect: Effect) -> None:
        match effect:
            case TakeProducerId():
                taken = ProducerIdTaken(effect.asked, ProducerId(9), self.clock.now_ms())
                shard.tell(taken)
            case SendMarkers():
                self.sent.append(effect)
            case _:
                raise AssertionError(f"not for the shell: {effect}")
