"""What partition leaders ask of coordinators: may this producer open a transaction here (TX-13)?

The question goes to the coordinator of the transactional id, in this broker or elsewhere, as an
AddPartitionsToTxn that verifies partitions or adds them. What a reader would get wrong: a client of
version 2 begins its next transaction as soon as the last is decided, and then its first batches
come while markers are still being written. So such a question is asked again for a little while,
because sending a batch again costs far more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.broker.transaction_coordinator import TransactionCoordinator
from headwater.cluster.colleagues import Colleagues, Errand
from headwater.cluster.effective import StaticConfig
from headwater.cluster.image import NO_LEADER, ClusterImage
from headwater.cluster.topic_names import TRANSACTION_STATE
from headwater.coordinator.effects import TransactionalProducer
from headwater.coordinator.pending_answers import Answer, Outcome
from headwater.model.broker_settings import BrokerSettings
from headwater.model.elapsed import has_passed
from headwater.model.errors import ErrorCode
from headwater.model.failures import HeadwaterError
from headwater.model.ids import NodeId, TopicPartition
from headwater.model.ports import Clock
from headwater.replication.deadlines import Deadlines
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.replication.transaction_guard import Question
from headwater.wire.lifting import Message

Codes = Mapping[TopicPartition, ErrorCode]
Answered = Callable[[Codes], None]

_LEADERS_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBatches:
    """The partitions that a producer's transaction is about to be opened in."""

    transactional_id: str
    producer: TransactionalProducer
    partitions: tuple[TopicPartition, ...]
    question: Question


class TransactionQuestions:
    """See the module. For the loop's thread only."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        coordinator: TransactionCoordinator,
        clock: Clock,
        deadlines: Deadlines,
        partitions: HostedPartitions,
        image: Callable[[], ClusterImage],
        colleagues: Colleagues | None = None,
    ) -> None:
        self._node_id = static.node_id
        self._coordinator = coordinator
        self._clock = clock
        self._deadlines = deadlines
        self._partitions = partitions
        self._image = image
        self._colleagues = colleagues
        self._expired_ms: int | None = None
        self.configure(static.settings)

    def tick(self, now_ms: int) -> None:
        """Now and then, forget questions that led to nothing."""
        if has_passed(self._expired_ms, self._expiry_interval_ms, now_ms):
            self._expired_ms = now_ms
            self._partitions.expire_questions(now_ms, self._expiration_ms)

    def configure(self, settings: BrokerSettings) -> None:
        """Take settings that may have changed."""
        self._verifies = settings.transaction_partition_verification_enable
        self._expiration_ms = settings.producer_id_expiration_ms
        self._expiry_interval_ms = settings.producer_id_expiration_check_interval_ms
        self._timeout_ms = settings.request_timeout_ms
        self._again_ms = settings.add_partitions_to_txn_retry_backoff_ms
        self._patience_ms = min(
            settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
        )

    def is_asked(self, question: Question) -> bool:
        """Whether this is a question at all; adding a partition always is."""
        return self._verifies or not question.is_verify_only

    def ask(self, batches: FirstBatches, answered: Answered) -> None:
        """Ask; `answered` hears of every partition, NONE where the transaction may be opened."""
        if batches.question.is_verify_only:
            self._ask(batches, answered)
            return
        until_ms = self._clock.steady_ms() + self._patience_ms

        def heard(codes: Codes) -> None:
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            now_ms = self._clock.steady_ms()
            if is_early and now_ms < until_ms:
                later = _Later(self._deadlines, lambda: self._ask(batches, heard))
                self._deadlines.add(now_ms + self._again_ms, later)
            else:
                answered(codes)

        self._ask(batches, heard)

    def _ask(self, batches: FirstBatches, answered: Answered) -> None:
        # Loaded with the first question: a broker without transactions does not pay for it.
        from headwater.broker.question_messages import codes_of, request_of

        def heard(outcome: Outcome) -> None:
            answered(codes_of(batches, outcome))

        leader = self._leader_of(batches.transactional_id)
        if leader is None:
            heard(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif leader == self._node_id:
            self._ask_here(batches.transactional_id, request_of(batches), heard)
        else:
            self._ask_elsewhere(leader, request_of(batches), heard)

    def _ask_here(self, transactional_id: str, request: Message, heard: Answer) -> None:
        shard = self._coordinator.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            heard(shard)
            return
        shard.ask(request, version=_LEADERS_VERSION, client_id="", client_host="", answer=heard)

    def _ask_elsewhere(self, leader: NodeId, request: Message, heard: Answer) -> None:
        if self._colleagues is None:
            heard(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def unanswered(_: HeadwaterError) -> None:
            heard(ErrorCode.NETWORK_EXCEPTION)

        self._colleagues.ask(
            leader,
            request,
            errand=Errand.TRANSACTION,
            timeout_ms=self._timeout_ms,
            then=heard,
            otherwise=unanswered,
        )

    def _leader_of(self, transactional_id: str) -> NodeId | None:
        number = self._coordinator.number_of(transactional_id)
        if number is None:
            return None
        state = self._image().partition(TRANSACTION_STATE, number)
        return None if state is None or state.leader == NO_LEADER else state.leader


class _Later:
    """A question that is asked again (`headwater.replication.deadlines.Waiter`)."""

    __slots__ = ("_ask", "_deadlines", "is_done")

    def __init__(self, deadlines: Deadlines, ask: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._ask = ask
        self.is_done = False

    @property
    def is_gone(self) -> bool:
        """It does not take long, and the batch may be answered to nobody."""
        return False

    def expire(self) -> None:
        self.is_done = True
        self._deadlines.ended()
        self._ask()
