"""States of a transaction and their valid transitions (TX-1).

                     +--------------------------------------------+
                     v                                            |
    (new) --> Empty ----> Ongoing ----> PrepareCommit --> CompleteCommit
                |            |
                |            +--------> PrepareAbort ---> CompleteAbort
                +--------------------------^  (version 2: nothing was written, the epoch rises)

Note: once a Prepare state is in the log the transaction is decided, and only its Complete state can
follow, however long the markers take. Dead and PrepareEpochFence exist for their names, which
filters may use: an expired id is a tombstone here, and the record that aborts also fences the
producer.
"""

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The numbers are those in the log."""

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
        """Name in tools and filters."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Decided, but not all markers are written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Decided, and all markers are written."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No ongoing transaction; the id may be taken over or expire."""
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

TRANSITIONS: Final[dict[TransactionState, tuple[TransactionState, ...]]] = {
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
    """Return the state with this case-sensitive name, or None."""
    return next((state for state, name in _LABELS.items() if name == label), None)
