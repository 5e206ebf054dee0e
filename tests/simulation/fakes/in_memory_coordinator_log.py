"""A coordinator log in memory: the test decides what is committed, fails or waits."""

from collections import deque
from collections.abc import Callable
from functools import partial

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.coordinator.records.record_serde import RecordSerde
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.log_replay import LogSlice, read_slice
from headwater.records.batch_header import BatchHeader, read_header
from headwater.replication.transaction_verification import VerificationGuard


class InMemoryCoordinatorLog:
    """`CoordinatorLog`. Outlives the shards on it."""

    def __init__(self, codec: RecordSerde, *, slice_bytes: int = 200) -> None:
        self.batches: list[bytes] = []
        self.leader_epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.commits_at_once = True
        # Errors of the next appends; None lets one succeed.
        self.append_errors: deque[ErrorCode | None] = deque()
        self.read_error: HeadwaterError | None = None
        # If set, the test delivers slices one by one.
        self.is_slow = False
        self.waiting: deque[Callable[[], None]] = deque()
        self.moved: Callable[[], None] | None = None
        self._codec = codec
        self._slice_bytes = slice_bytes
        self._committed_offset = 0

    @property
    def committed_offset(self) -> int:
        return self.end_offset if self.commits_at_once else self._committed_offset

    def headers(self) -> list[BatchHeader]:
        return [read_header(batch) for batch in self.batches]

    def commit(self, offset: int | None = None) -> None:
        """Commit everything before an offset, or everything."""
        self._committed_offset = self.end_offset if offset is None else offset
        if self.moved is not None:
            self.moved()

    def crash(self, end_offset: int) -> None:
        """Lose records from an offset on; committed ones must not be lost."""
        assert end_offset >= self.committed_offset
        kept = [batch for batch in self.batches if read_header(batch).last_offset < end_offset]
        self.batches = kept
        self.end_offset = read_header(kept[-1]).last_offset + 1 if kept else 0
        self.waiting.clear()
        self.moved = None

    def append(self, batch: bytearray, now_ms: int) -> int | ErrorCode:  # noqa: ARG002
        error = self.append_errors.popleft() if self.append_errors else None
        if error is not None:
            return error
        base_offset = self.end_offset
        batch[:8] = base_offset.to_bytes(8, "big")
        self.batches.append(bytes(batch))
        self.end_offset = read_header(batch).last_offset + 1
        if self.commits_at_once:
            self.commit()
        return base_offset

    def append_in_transaction(
        self,
        batch: bytearray,
        producer: TransactionalProducer,  # noqa: ARG002
        ticket: VerificationGuard | None,  # noqa: ARG002
        now_ms: int,
    ) -> int | ErrorCode:
        return self.append(batch, now_ms)

    def append_marker(
        self,
        batch: bytearray,
        producer: TransactionalProducer,  # noqa: ARG002
        client_version: int,  # noqa: ARG002
        now_ms: int,
    ) -> int | ErrorCode:
        return self.append(batch, now_ms)

    def read(
        self,
        offset: int,
        *,
        then: Callable[[LogSlice], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        outcome = partial(self._deliver, offset, then, on_error)
        if self.is_slow:
            self.waiting.append(outcome)
        else:
            outcome()

    def watch(self, moved: Callable[[], None]) -> None:
        self.moved = moved

    def unwatch(self) -> None:
        self.moved = None

    def _deliver(
        self,
        offset: int,
        then: Callable[[LogSlice], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        if self.read_error is not None:
            on_error(self.read_error)
            return
        first = next(
            index for index, header in enumerate(self.headers()) if header.last_offset >= offset
        )
        # At least one complete batch, and perhaps a part of another.
        size = max(self._slice_bytes, len(self.batches[first]))
        try:
            found = read_slice(b"".join(self.batches[first:])[:size], offset, self._codec)
        except HeadwaterError as error:
            on_error(error)
            return
        then(found)
