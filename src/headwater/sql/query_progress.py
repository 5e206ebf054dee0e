"""What a query has read so far, and whether it is cancelled. Thread-safe."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.sql.sql_errors import QueryCancelled

_EXAMPLES_MAX: Final = 5
# Beyond so many, a record that is read twice is counted twice.
_DISTINCT_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfitExample:
    """A record that does not fit the type of its key or value."""

    partition: TopicPartition
    offset: int
    part: str
    reason: str

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}: {self.part}: {self.reason}"


@dataclass(slots=True, kw_only=True)
class QueryStatistics:
    """Counts of a query; `total_offsets` grows as topics are planned."""

    bytes_read: int = 0
    records_read: int = 0
    offsets_read: int = 0
    total_offsets: int = 0
    misfit_count: int = 0
    misfits: list[MisfitExample] = field(default_factory=list)
    # Offsets that retention deleted after the query was planned.
    deleted_offsets: int = 0


class QueryProgress:
    """Counts shared by the scans of a query."""

    def __init__(self) -> None:
        self.statistics = QueryStatistics()
        self._lock = threading.Lock()
        self._misfits: set[tuple[TopicPartition, int]] = set()
        self._is_cancelled = False
        self._is_ended = False
        self._interrupts: list[Callable[[], None]] = []
        self._scans: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        """Make the query end with `QueryCancelled`. Idempotent, for any thread."""
        with self._lock:
            self._is_cancelled = True
            interrupts, self._interrupts = self._interrupts, []
        self.end_scans()
        for each in interrupts:
            each()

    def end_scans(self) -> None:
        """Stop reading: no more rows are needed."""
        with self._lock:
            self._is_ended = True
            scans, self._scans = self._scans, []
        for each in scans:
            each()

    def on_cancel(self, interrupt: Callable[[], None]) -> None:
        """Call this when the query is cancelled."""
        with self._lock:
            self._interrupts.append(interrupt)

    def on_end(self, close: Callable[[], None]) -> None:
        """Call this when the query ends or is cancelled; at once if it has."""
        with self._lock:
            if not self._is_ended:
                self._scans.append(close)
                return
        close()

    def check(self) -> None:
        if self._is_cancelled:
            raise QueryCancelled("the query was cancelled")

    def planned(self, offsets: int) -> None:
        with self._lock:
            self.statistics.total_offsets += offsets

    def fetched(self, size_bytes: int, offsets: int) -> None:
        with self._lock:
            self.statistics.bytes_read += size_bytes
            self.statistics.offsets_read += offsets

    def decoded(self, records: int) -> None:
        with self._lock:
            self.statistics.records_read += records

    def deleted(self, offsets: int) -> None:
        with self._lock:
            self.statistics.deleted_offsets += offsets
            self.statistics.offsets_read += offsets

    def misfitted(self, records: Iterable[MisfitExample]) -> None:
        """Count records, each once even if the query reads its topic twice."""
        with self._lock:
            for each in records:
                place = (each.partition, each.offset)
                if place in self._misfits:
                    continue
                if len(self._misfits) < _DISTINCT_MAX:
                    self._misfits.add(place)
                self.statistics.misfit_count += 1
                if len(self.statistics.misfits) < _EXAMPLES_MAX:
                    self.statistics.misfits.append(each)
