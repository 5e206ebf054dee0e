"""The states of a transaction, and which may follow which (TX-1).

                     +--------------------------------------------+
                     v                                            |
    (new) --> Empty ----> Ongoing ----> PrepareCommit --> CompleteCommit
                |            |
                |            +--------> PrepareAbort ---> CompleteAbort
                +--------------------------^  (version 2: nothing was written, the epoch rises)

What a reader would get wrong: once a Prepare state is in the log the transaction is decided, and
nothing but its Complete state can follow, however long the markers take. Dead and
PrepareEpochFence exist for their names, which filters may ask for: an id that is forgotten is a
record without a value here, and a producer is fenced by the same record that aborts for it.
"""

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """One state; the number is its form in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that tools see, and by which they filter."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Decided, and the markers are not all written yet."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Decided, and the markers are all written."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is under way; the id may be taken over, or forgotten when it is old."""
        return self in _AT_REST


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

_AT_REST: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)

_FROM_REST: Final = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_ABORT,
    TransactionState.DEAD,
)

MAY_FOLLOW: Final[dict[TransactionState, tuple[TransactionState, ...]]] = {
    TransactionState.EMPTY: _FROM_REST,
    TransactionState.ONGOING: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.PREPARE_COMMIT: (TransactionState.COMPLETE_COMMIT,),
    TransactionState.PREPARE_ABORT: (TransactionState.COMPLETE_ABORT,),
    TransactionState.COMPLETE_COMMIT: _FROM_REST,
    TransactionState.COMPLETE_ABORT: _FROM_REST,
    TransactionState.DEAD: (),
    TransactionState.PREPARE_EPOCH_FENCE: (),
}


def state_of_label(label: str) -> TransactionState | None:
    """The state of that name, which is case-sensitive, or None."""
    return next((state for state, name in _LABELS.items() if name == label), None)
