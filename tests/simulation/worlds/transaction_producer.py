"""A transactional producer over a lossy network: retry, abort, or give up.

It is a generator that yields requests and gets responses, None after a timeout. The checks use what
it knows of each transaction attempt: the values it sent, and the response to the end.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.older_versions import Message
from headwater.replication.transaction_verification import VerificationRequest
from tests.simulation.worlds.transaction_coordinator import Ask
from tests.simulation.worlds.transaction_network import World
from tests.simulation.worlds.transaction_partition import Batch, Value

_RETRIED = (
    None,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_FATAL = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
_PAUSE_MS = 40
_MAX_TRIES = 12
_FOR_EVER = 1_000


@dataclass(slots=True)
class Attempt:
    """One try at a transaction, as its producer knows it."""

    number: int
    transactional_id: str
    sent: list[tuple[TopicPartition, Value]] = field(default_factory=list)
    wants_commit: bool = False
    told: bool | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """A batch for a partition."""

    partition: TopicPartition
    batch: Batch


@dataclass(frozen=True, slots=True)
class Pause:
    for_ms: int


Action = Ask | Send | Pause
Answer = Message | ErrorCode | None
Life = Generator[Action, Answer, None]


@dataclass(slots=True)
class SimProducer:
    """One process. Several may have the same transactional id; then all but one are zombies."""

    world: World
    transactional_id: str
    version: int
    partitions: tuple[TopicPartition, ...]
    begin_attempt: Callable[[str], Attempt]
    timeout_ms: int
    producer_id: int = -1
    epoch: int = -1
    is_fenced: bool = False
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_newer(self) -> bool:
        return self.version >= 2

    def live(self) -> Life:
        yield from self._initialise(goes_on=False)
        while not self.is_fenced:
            yield from self._transact()
            yield Pause(self.world.rng.randint(0, 200))

    def _initialise(self, *, goes_on: bool) -> Life:
        for _ in range(_FOR_EVER):
            answer = yield Ask(
                InitProducerIdRequest(
                    transactional_id=self.transactional_id,
                    transaction_timeout_ms=self.timeout_ms,
                    producer_id=self.producer_id if goes_on else -1,
                    producer_epoch=self.epoch if goes_on else -1,
                ),
                5,
            )
            if isinstance(answer, InitProducerIdResponse):
                if answer.error_code is ErrorCode.NONE:
                    self._take(answer.producer_id, answer.producer_epoch)
                    return
                if answer.error_code in _FATAL:
                    break
            yield Pause(_PAUSE_MS)
        self.is_fenced = True

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def _transact(self) -> Life:
        attempt = self.begin_attempt(self.transactional_id)
        rng = self.world.rng
        chosen = rng.sample(self.partitions, rng.randint(1, min(3, len(self.partitions))))
        targets = [partition for partition in chosen for _ in range(rng.randint(1, 3))]
        is_whole = yield from self._write(attempt, targets)
        if self.is_fenced:
            return
        if rng.random() < 0.05:
            # The process was stopped for longer than the transaction timeout.
            yield Pause(self.timeout_ms + rng.randint(0, 2_000))
        attempt.wants_commit = is_whole and rng.random() < 0.8
        yield from self._end(attempt)
        if not is_whole and not self.is_newer and not self.is_fenced:
            # The outcome of the last batch is unknown, and so is its sequence (KIP-360).
            yield from self._initialise(goes_on=True)

    def _write(
        self, attempt: Attempt, targets: list[TopicPartition]
    ) -> Generator[Action, Answer, bool]:
        """Whether all batches are in their logs; the rest is not tried after a failure."""
        for number, partition in enumerate(targets):
            if not self.is_newer:
                added = yield from self._try(self._adding(partition), code_of_addition)
                if added is not ErrorCode.NONE:
                    return False
            value = Value(attempt.number, number)
            attempt.sent.append((partition, value))
            sequence = self._sequences.get(partition, 0)
            sending = Send(partition, self._batch(value, sequence))
            written = yield from self._try(sending, _produce_code)
            if written is not ErrorCode.NONE:
                return False
            self._sequences[partition] = sequence + 1
        return True

    def _try(
        self, action: Action, code_of: Callable[[Answer], ErrorCode | None]
    ) -> Generator[Action, Answer, ErrorCode | None]:
        code: ErrorCode | None = None
        for _ in range(self.world.rng.randint(1, _MAX_TRIES)):
            answer = yield action
            code = code_of(answer)
            if code not in _RETRIED:
                break
            yield Pause(_PAUSE_MS)
        if code in _FATAL:
            self.is_fenced = True
        return code

    def _end(self, attempt: Attempt) -> Life:
        """An end is retried until it is answered, however long that takes."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=attempt.wants_commit,
        )
        for _ in range(_FOR_EVER):
            answer = yield Ask(request, 5 if self.is_newer else 4)
            if isinstance(answer, EndTxnResponse):
                if answer.error_code is ErrorCode.NONE:
                    attempt.told = attempt.wants_commit
                    if self.is_newer:
                        self._take(answer.producer_id, answer.producer_epoch)
                    return
                if answer.error_code is ErrorCode.INVALID_TXN_STATE and not attempt.wants_commit:
                    # Version 1 has nothing to abort if no partition was added.
                    return
                if answer.error_code not in _RETRIED:
                    break
            yield Pause(_PAUSE_MS)
        self.is_fenced = True

    def _adding(self, partition: TopicPartition) -> Ask:
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,))
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(topic,),
        )
        return Ask(AddPartitionsToTxnRequest(transactions=(transaction,)), 3)

    def _batch(self, value: Value, sequence: int) -> Batch:
        return Batch(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            epoch=self.epoch,
            sequence=sequence,
            value=value,
            question=VerificationRequest.ADD
            if self.is_newer
            else VerificationRequest.VERIFY_ABORTABLE,
        )


def code_of_addition(answer: Answer) -> ErrorCode | None:
    """The one code of a response about one partition."""
    if not isinstance(answer, AddPartitionsToTxnResponse):
        return None
    ((partition,),) = (
        topic.results_by_partition
        for result in answer.results_by_transaction
        for topic in result.topic_results
    )
    return partition.partition_error_code


def _produce_code(answer: Answer) -> ErrorCode | None:
    return answer if isinstance(answer, ErrorCode) else None
