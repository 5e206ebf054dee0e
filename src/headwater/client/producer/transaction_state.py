"""Where a transactional producer stands. Pure: what may follow what is a table.

    UNINITIALIZED -> READY -> IN_TRANSACTION -> ENDING -> READY
                                   |               |
                                   v               v
                                ABORTABLE       ABORTABLE     (only an abort leads out)

From everywhere an error can lead to FATAL, which nothing leaves: another producer has taken over,
or the rights are missing.
"""

from enum import Enum

from headwater.client.errors import IllegalState, KafkaError
from headwater.model.errors import ErrorCode

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


class Phase(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    ENDING = "ending"
    ABORTABLE = "abortable error"
    FATAL = "fatal error"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.UNINITIALIZED: frozenset({Phase.READY, Phase.FATAL}),
    Phase.READY: frozenset({Phase.IN_TRANSACTION, Phase.ABORTABLE, Phase.FATAL}),
    Phase.IN_TRANSACTION: frozenset({Phase.ENDING, Phase.ABORTABLE, Phase.FATAL}),
    Phase.ENDING: frozenset({Phase.READY, Phase.ABORTABLE, Phase.FATAL}),
    Phase.ABORTABLE: frozenset({Phase.ENDING, Phase.ABORTABLE, Phase.FATAL}),
    Phase.FATAL: frozenset({Phase.FATAL}),
}

_ADVICE: dict[Phase, str] = {
    Phase.UNINITIALIZED: "call init_transactions first",
    Phase.READY: "call begin_transaction first",
    Phase.IN_TRANSACTION: "a transaction is open; commit or abort it first",
    Phase.ENDING: "the transaction is being ended",
    Phase.ABORTABLE: "call abort_transaction first",
    Phase.FATAL: "make a new producer",
}


class TransactionState:
    """The phase, why it is an error if it is one, and what the transaction has touched."""

    __slots__ = ("error", "has_offsets", "partitions", "phase")

    def __init__(self) -> None:
        self.phase = Phase.UNINITIALIZED
        self.error: KafkaError | None = None
        # Partitions that belong to the transaction, as the coordinator or the leader knows.
        self.partitions: dict[tuple[str, int], None] = {}
        self.has_offsets = False

    @property
    def is_started(self) -> bool:
        """Whether anybody but us knows of the transaction, so that it must be ended."""
        return bool(self.partitions) or self.has_offsets

    @property
    def advice(self) -> str:
        """What to do in this phase, for those who did something else."""
        return _ADVICE[self.phase]

    def ready(self) -> None:
        """The coordinator has confirmed who we are, or the end of the last transaction."""
        self._go(Phase.READY)
        self.error = None
        self.partitions = {}
        self.has_offsets = False

    def check_ready(self) -> None:
        self._demand(Phase.READY, "begin a transaction")

    def begin(self) -> None:
        self.check_ready()
        self._go(Phase.IN_TRANSACTION)

    def check_sendable(self) -> None:
        self._demand(Phase.IN_TRANSACTION, "send in a transaction")

    def begin_commit(self) -> None:
        self._demand(Phase.IN_TRANSACTION, "commit")
        self._go(Phase.ENDING)

    def begin_abort(self) -> None:
        if self.phase is not Phase.ABORTABLE:
            self._demand(Phase.IN_TRANSACTION, "abort")
        self._go(Phase.ENDING)

    def failed(self, error: KafkaError, *, is_fatal: bool = False) -> None:
        """Something of the transaction failed: it can only be aborted, or not even that."""
        is_fatal |= error.code in _FATAL_CODES or self.phase is Phase.UNINITIALIZED
        # The first error is the cause; what fails after it may well be its consequence.
        if self.error is None or (is_fatal and self.phase is not Phase.FATAL):
            self.error = error
        self._go(Phase.FATAL if is_fatal else Phase.ABORTABLE)

    def _demand(self, phase: Phase, what: str) -> None:
        if self.phase is phase:
            return
        if self.error is not None and self.phase in (Phase.ABORTABLE, Phase.FATAL):
            raise self.error
        raise IllegalState(f"cannot {what}: {self.advice}")

    def _go(self, phase: Phase) -> None:
        if self.phase is Phase.FATAL:
            return
        assert phase in TRANSITIONS[self.phase], f"{self.phase} to {phase}"
        self.phase = phase
