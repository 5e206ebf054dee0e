"""CleanedTransactionMetadata: removable aborted data and markers (CP-5). Pure.

Note: a marker can be removed only if this pass has *read* no batch of its transaction, whether or
not the pass kept it. Data that is removed now keeps its marker for another round, and the delete
horizon starts after that: a consumer that read the data just before the swap must still find the
marker, or it would treat the producer's next transaction as aborted as well.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headwater.records.batch_header import BatchHeader
from headwater.records.control_batches import ControlRecord
from headwater.storage.index.transaction_index import AbortedTransaction


class MarkerRetention(NamedTuple):
    """Whether a control batch may be removed, and the index entry to keep with it."""

    is_removable: bool
    entry: AbortedTransaction | None


class CleanedTransactionMetadata:
    """Tracks the transactions of a log while its batches are read in order."""

    __slots__ = ("_aborted", "_next", "_open_aborted", "_seen_aborted", "_seen_committed")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda aborted: aborted.first_offset)
        self._next = 0
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process a data batch; return True if its transaction was aborted."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if self._aborted_around(header) is not None:
            self._seen_aborted.add(header.producer_id)
            return True
        self._seen_committed.add(header.producer_id)
        return False

    def end_transaction(
        self, header: BatchHeader, control: ControlRecord | None
    ) -> MarkerRetention:
        """Process a control batch; `control` is None if compaction left only the header."""
        self._open_up_to(header.last_offset)
        if control is None:
            return MarkerRetention(is_removable=True, entry=None)
        if not control.ends_transaction:
            return MarkerRetention(is_removable=False, entry=None)
        seen = self._seen_aborted if control.is_abort else self._seen_committed
        is_removable = header.producer_id not in seen
        seen.discard(header.producer_id)
        if not control.is_abort:
            return MarkerRetention(is_removable=is_removable, entry=None)
        aborted = self._aborted_around(header)
        self._open_aborted.pop(header.producer_id, None)
        return MarkerRetention(is_removable=is_removable, entry=None if is_removable else aborted)

    def _open_up_to(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            aborted = self._aborted[self._next]
            self._open_aborted[aborted.producer_id] = aborted
            self._next += 1

    def _aborted_around(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the producer's aborted transaction that contains this batch.

        A pass that starts in the middle of a log does not see earlier markers, so a transaction
        must also end by its own last offset.
        """
        aborted = self._open_aborted.get(header.producer_id)
        if aborted is None or aborted.last_offset < header.last_offset:
            return None
        return aborted
