"""Load a shard: replay its log slice by slice.

Slices are read and decoded on a thread and replayed on the event loop, which is never blocked for
longer than one slice takes.

Note: a slice may be available at once. The next is then requested in a loop, not by recursion,
which a long log would make too deep.
"""

import logging
from collections.abc import Callable

from headwater.common.exceptions import HeadwaterError
from headwater.coordinator.runtime.coordinator_log import CoordinatorLog
from headwater.coordinator.runtime.coordinator_shard import CoordinatorShard, ExternalEvent
from headwater.coordinator.runtime.log_replay import LoggedRecord, LogSlice

_log = logging.getLogger(__name__)


class CoordinatorLoader:
    """One pass over the log. `ended` is called with None or the error."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        shard: CoordinatorShard[ExternalEvent],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self._name = name
        self._log = log
        self._replay = shard.replay
        self._end_transaction = shard.end_transaction
        self._ended = ended
        self._offset = log.start_offset
        self._is_reading = False
        self._is_over = False
        self._unknown: dict[int, None] = {}
        self.record_count = 0

    def advance(self) -> None:
        """Continue until a slice has to be waited for."""
        while not self._is_over:
            before = self._offset
            if before >= self._log.end_offset:
                self._end(None)
                return
            self._is_reading = True
            self._log.read(before, then=self._arrived, on_error=self._end)
            self._is_reading = False
            if self._offset == before:
                return

    def cancel(self) -> None:
        self._is_over = True

    def _arrived(self, found: LogSlice) -> None:
        if self._is_over:
            return
        assert found.next_offset > self._offset, (
            f"{self._name} made no progress at offset {self._offset}"
        )
        try:
            self._take(found)
        except Exception as error:  # noqa: BLE001  a log that trips us must not stop the broker
            self._end(error)
            return
        self._offset = found.next_offset
        if not self._is_reading:
            self.advance()

    def _take(self, found: LogSlice) -> None:
        for entry in found.entries:
            if isinstance(entry, LoggedRecord):
                self._replay(entry.record, offset=entry.offset, producer_id=entry.producer_id)
                self.record_count += 1
            else:
                self._end_transaction(entry.producer_id, is_commit=entry.is_commit)
        for record_type in found.unknown_types:
            if record_type not in self._unknown:
                self._unknown[record_type] = None
                _log.warning(
                    "Skipping records of an unknown type: shard=%s record_type=%d",
                    self._name,
                    record_type,
                )

    def _end(self, error: Exception | HeadwaterError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._ended(error)
