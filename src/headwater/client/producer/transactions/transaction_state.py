"""State machine of a transactional producer. Pure: a table of legal transitions.

    UNINITIALIZED -> READY -> IN_TRANSACTION -> ENDING -> READY
                                   |               |
                                   v               v
                                ABORTABLE       ABORTABLE     (only an abort leads out)

Any phase can lead to FATAL, which is final: another producer has taken over, or authorization is
missing.
"""

from enum import Enum

from headwater.client.errors import IllegalState, KafkaError
from headwater.common.error_codes import ErrorCode

_FATAL_CODES = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)


class TransactionPhase(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    ENDING = "ending"
    ABORTABLE = "abortable error"
    FATAL = "fatal error"


TRANSITIONS: dict[TransactionPhase, frozenset[TransactionPhase]] = {
    TransactionPhase.UNINITIALIZED: frozenset({TransactionPhase.READY, TransactionPhase.FATAL}),
    TransactionPhase.READY: frozenset(
        {TransactionPhase.IN_TRANSACTION, TransactionPhase.ABORTABLE, TransactionPhase.FATAL}
    ),
    TransactionPhase.IN_TRANSACTION: frozenset(
        {TransactionPhase.ENDING, TransactionPhase.ABORTABLE, TransactionPhase.FATAL}
    ),
    TransactionPhase.ENDING: frozenset(
        {TransactionPhase.READY, TransactionPhase.ABORTABLE, TransactionPhase.FATAL}
    ),
    TransactionPhase.ABORTABLE: frozenset(
        {TransactionPhase.ENDING, TransactionPhase.ABORTABLE, TransactionPhase.FATAL}
    ),
    TransactionPhase.FATAL: frozenset({TransactionPhase.FATAL}),
}

_ADVICE: dict[TransactionPhase, str] = {
    TransactionPhase.UNINITIALIZED: "call init_transactions first",
    TransactionPhase.READY: "call begin_transaction first",
    TransactionPhase.IN_TRANSACTION: "a transaction is open; commit or abort it first",
    TransactionPhase.ENDING: "the transaction is being ended",
    TransactionPhase.ABORTABLE: "call abort_transaction first",
    TransactionPhase.FATAL: "create a new producer",
}


class TransactionState:
    """The phase, the error if there is one, and the partitions in the transaction."""

    __slots__ = ("error", "has_offsets", "partitions", "phase")

    def __init__(self) -> None:
        self.phase = TransactionPhase.UNINITIALIZED
        self.error: KafkaError | None = None
        # Partitions in the transaction, known to the coordinator or the leader.
        self.partitions: dict[tuple[str, int], None] = {}
        self.has_offsets = False

    @property
    def is_started(self) -> bool:
        """Whether a broker knows of the transaction, so that it must be ended."""
        return bool(self.partitions) or self.has_offsets

    @property
    def advice(self) -> str:
        """What to call next in this phase, for error messages."""
        return _ADVICE[self.phase]

    def ready(self) -> None:
        """The coordinator has confirmed the producer id, or the end of the transaction."""
        self._go(TransactionPhase.READY)
        self.error = None
        self.partitions = {}
        self.has_offsets = False

    def check_ready(self) -> None:
        self._require(TransactionPhase.READY, "begin a transaction")

    def begin(self) -> None:
        self.check_ready()
        self._go(TransactionPhase.IN_TRANSACTION)

    def check_sendable(self) -> None:
        self._require(TransactionPhase.IN_TRANSACTION, "send in a transaction")

    def begin_commit(self) -> None:
        self._require(TransactionPhase.IN_TRANSACTION, "commit")
        self._go(TransactionPhase.ENDING)

    def begin_abort(self) -> None:
        if self.phase is not TransactionPhase.ABORTABLE:
            self._require(TransactionPhase.IN_TRANSACTION, "abort")
        self._go(TransactionPhase.ENDING)

    def failed(self, error: KafkaError, *, is_fatal: bool = False) -> None:
        """Record an error: only abort the transaction, or only close the producer."""
        is_fatal |= error.code in _FATAL_CODES or self.phase is TransactionPhase.UNINITIALIZED
        # Keep the first error; later ones may be its consequences.
        if self.error is None or (is_fatal and self.phase is not TransactionPhase.FATAL):
            self.error = error
        self._go(TransactionPhase.FATAL if is_fatal else TransactionPhase.ABORTABLE)

    def _require(self, phase: TransactionPhase, what: str) -> None:
        if self.phase is phase:
            return
        if self.error is not None and self.phase in (
            TransactionPhase.ABORTABLE,
            TransactionPhase.FATAL,
        ):
            raise self.error
        raise IllegalState(f"cannot {what}: {self.advice}")

    def _go(self, phase: TransactionPhase) -> None:
        if self.phase is TransactionPhase.FATAL:
            return
        assert phase in TRANSITIONS[self.phase], f"{self.phase} to {phase}"
        self.phase = phase
