"""One shard of the transaction coordinator with its log, driven event by event."""

from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.records.record_serde import TRANSACTION_RECORDS
from headwater.coordinator.records.transaction_records import TransactionLogRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    Effect,
    GenerateProducerId,
    Loaded,
    MarkerOutcome,
    MarkersAnswered,
    ProducerIdGenerated,
    Reply,
    RequestEvent,
    SendMarkers,
    TimerFired,
    TimerKey,
)
from headwater.coordinator.transaction.transaction_coordinator_shard import (
    Event,
    TransactionCoordinatorShard,
)
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_settings import TransactionSettings
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.end_txn import EndTxnRequest
from headwater.protocol.messages.init_producer_id import InitProducerIdRequest
from headwater.protocol.older_versions import Message

TX = "pay"
CALLER = Caller(7)
COORDINATOR_EPOCH = 3
TIMEOUT_MS = 60_000
SETTINGS = TransactionSettings(
    max_timeout_ms=900_000, expiration_ms=604_800_000, offsets_partition_count=50, server_version=2
)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def init(producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS) -> Message:
    return InitProducerIdRequest(
        transactional_id=TX,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def adding(
    producer_id: int, epoch: int, *partitions: TopicPartition, verify_only: bool = False
) -> AddPartitionsToTxnRequest:
    topics = tuple(
        AddPartitionsToTxnTopic(name=topic, partitions=(number,)) for topic, number in partitions
    )
    return AddPartitionsToTxnRequest(
        transactions=(
            AddPartitionsToTxnTransaction(
                transactional_id=TX,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=topics,
            ),
        )
    )


def end(producer_id: int, epoch: int, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=TX, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )


@dataclass(slots=True)
class TransactionLab:
    """A loaded shard, empty unless records are given."""

    settings: TransactionSettings = SETTINGS
    records: list[TransactionLogRecord] = field(default_factory=list)
    now_ms: int = 1_000
    shard: TransactionCoordinatorShard = field(init=False)

    def __post_init__(self) -> None:
        self.reload()

    def reload(self) -> list[Effect]:
        """A new coordinator reads the log from its bytes."""
        self.shard = TransactionCoordinatorShard(lambda: self.settings, COORDINATOR_EPOCH)
        for record in self.records:
            read = TRANSACTION_RECORDS.decode(*TRANSACTION_RECORDS.encode(record))
            assert isinstance(read, TransactionLogRecord)
            self.shard.replay(read, offset=0, producer_id=None)
        return self.handle(Loaded(self.now_ms))

    def handle(self, event: Event, *, appends_fail: bool = False) -> list[Effect]:
        effects = self.shard.decide(event)
        for effect in effects:
            if isinstance(effect, Append) and not appends_fail:
                for record in effect.records:
                    assert isinstance(record, TransactionLogRecord)
                    self.records.append(record)
                    self.shard.replay(record, offset=0, producer_id=None)
        return effects

    def asked(self, request: Message, version: int = 5) -> RequestEvent:
        return RequestEvent(
            request=request,
            version=version,
            caller=CALLER,
            client_id="client",
            client_host="host",
            now_ms=self.now_ms,
        )

    def ask(
        self, request: Message, version: int = 5, *, appends_fail: bool = False
    ) -> list[Effect]:
        return self.handle(self.asked(request, version), appends_fail=appends_fail)

    def answer(self, request: Message, version: int = 5) -> Message:
        """Only the response."""
        (reply,) = (effect for effect in self.ask(request, version) if isinstance(effect, Reply))
        return reply.response

    def give(self, effects: list[Effect], outcome: int | ErrorCode) -> list[Effect]:
        """Give the producer id that a decision waits for, or the error."""
        (taking,) = effects
        assert isinstance(taking, GenerateProducerId)
        given = outcome if isinstance(outcome, ErrorCode) else ProducerId(outcome)
        return self.handle(ProducerIdGenerated(taking.asked, given, self.now_ms))

    def fire(self, *key: str) -> list[Effect]:
        timer: TimerKey = key
        return self.handle(TimerFired(timer, self.now_ms))

    def markers(self, effects: list[Effect], *outcomes: MarkerOutcome) -> list[Effect]:
        """Outcomes of the markers that were just sent, by default that all are written."""
        (sending,) = (effect for effect in effects if isinstance(effect, SendMarkers))
        told = outcomes or (MarkerOutcome.WRITTEN,) * len(sending.partitions)
        answer = MarkersAnswered(
            transactional_id=sending.transactional_id,
            send_id=sending.send_id,
            outcomes=tuple(zip(sending.partitions, told, strict=True)),
            now_ms=self.now_ms,
        )
        return self.handle(answer)

    @property
    def state(self) -> TransactionMetadata:
        transaction = self.shard.get(TX)
        assert transaction is not None
        return transaction

    @property
    def label(self) -> str:
        return self.state.state.label

    def known(self, transaction: TransactionMetadata) -> "TransactionLab":
        """Start with a transactional id as in a record."""
        self.records.append(transaction.record())
        self.shard.replay(transaction.record(), offset=0, producer_id=None)
        return self

    def begun(self, *partitions: TopicPartition) -> "TransactionLab":
        """Producer 9, epoch 0, is in a transaction over the partitions."""
        self.give(self.ask(init()), 9)
        self.ask(adding(9, 0, *partitions))
        return self
