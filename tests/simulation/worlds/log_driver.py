"""Operations on one partition's log: executed, checked and applied to the model.

Before it starts, an operation records what a crash in the middle may leave (`InFlight`).
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.common.exceptions import BatchError, OutOfOrderSequenceNumber, TooManyOpenFiles
from headwater.storage.log.unified_log import UnifiedLog
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.fakes.batch_maker import placed
from tests.simulation.fakes.batches import Batch, Broken
from tests.simulation.worlds import log_checks, producer_reference
from tests.simulation.worlds.log_model import FlushPromise, InFlight
from tests.simulation.worlds.producer_reference import Sent
from tests.simulation.worlds.storage_world import StorageWorld, Tracked


class LogDriver:
    """Drives the current log of a partition, until the next restart."""

    def __init__(self, world: StorageWorld, tracked: Tracked) -> None:
        self.world = world
        self.tracked = tracked
        self.log: UnifiedLog = world.log(tracked)

    def append(self, content: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> Batch:
        """As leader; a rejected batch changes nothing and its error is raised."""
        tracked, model, log = self.tracked, self.tracked.model, self.log
        has_append_time = log.settings.message_timestamp_type == "LogAppendTime"
        batch = Batch.of(
            placed(
                content,
                base_offset=model.end,
                leader_epoch=tracked.leader_epoch,
                append_time_ms=self.world.now_ms if has_append_time else None,
            )
        )
        model.in_flight = InFlight(appended=(batch,), start_up_to=model.start)
        try:
            appended = log.append_as_leader(
                bytearray(content),
                leader_epoch=tracked.leader_epoch,
                now_ms=self.world.now_ms,
                origin=origin,
            )
        except (BatchError, TooManyOpenFiles):
            model.in_flight = None
            raise
        if (appended.base_offset, appended.last_offset) != (batch.base, batch.next - 1):
            raise Broken(f"{appended} for batch {batch.base} to {batch.next - 1}")
        self._note([batch])
        return batch

    def follow(self, run: Sequence[Batch], *, torn_bytes: int = 0) -> None:
        """As follower, with perhaps the start of one more batch behind the run."""
        self.tracked.model.in_flight = InFlight(
            appended=tuple(run), start_up_to=self.tracked.model.start
        )
        content = b"".join(batch.content for batch in run)
        torn = run[0].content[: min(torn_bytes, len(run[0].content) - 1)]
        taken = self.log.append_as_follower(
            content + torn, leader_epoch=self.tracked.leader_epoch, now_ms=self.world.now_ms
        )
        if taken != len(content):
            raise Broken(f"{taken} bytes of {len(content)} were followed")
        self._note(run)

    def retry(self, batch: Batch, sent: Sent) -> None:
        """Send a batch again that the producer state still has."""
        content = bytearray(placed(batch.content, base_offset=0, leader_epoch=-1))
        try:
            again = self.log.append_as_leader(
                content, leader_epoch=self.tracked.leader_epoch, now_ms=self.world.now_ms
            )
        except OutOfOrderSequenceNumber as refusal:
            raise Broken(f"the retry of {sent} was refused: {refusal}") from refusal
        if not again.is_duplicate or again.base_offset != sent.first_offset:
            raise Broken(f"the retry of {sent} gave {again}")

    def flush(self) -> FlushPromise:
        model = self.tracked.model
        promise = model.flush_asked()
        try:
            self.log.flush(lambda failure: None if failure else model.flushed(promise))
        except TooManyOpenFiles:
            model.flush_refused(promise)
            raise
        return promise

    def truncate(self, offset: int) -> None:
        """As replication does: the next append has a higher epoch."""
        tracked, model = self.tracked, self.tracked.model
        tracked.leader_epoch = max(tracked.leader_epoch, model.latest_epoch) + 1
        if offset >= model.end:
            self.log.truncate_to(offset, now_ms=self.world.now_ms)
            return
        starts_over = offset < self.log.local_log.segments.first.base_offset
        model.in_flight = InFlight(cut_to=offset, starts_over=starts_over, start_up_to=model.start)
        self.log.truncate_to(offset, now_ms=self.world.now_ms)
        if starts_over:
            self._note_started_over(offset)
        else:
            model.truncated(offset, self.log.end_offset)
            tracked.reloaded(self.log, log_checks.look(self.log))

    def start_over(self, offset: int) -> None:
        model = self.tracked.model
        self.tracked.leader_epoch = max(self.tracked.leader_epoch, model.latest_epoch) + 1
        model.in_flight = InFlight(starts_over=True)
        self.log.start_over(offset, now_ms=self.world.now_ms)
        self._note_started_over(offset)

    def delete_records(self, offset: int) -> None:
        self.tracked.model.in_flight = InFlight(start_up_to=offset)
        self.log.delete_records_below(offset)
        self.tracked.model.start_raised(offset)

    def retain(self) -> int:
        self.expect_retention()
        count = self.log.apply_retention(self.world.now_ms)
        self.note_retention()
        return count

    def expect_retention(self) -> None:
        self.tracked.model.in_flight = InFlight(start_up_to=self.log.high_watermark)

    def note_retention(self) -> None:
        """Retention decides by itself how far it goes, but never past the high watermark."""
        model, log = self.tracked.model, self.log
        if not model.start <= log.log_start_offset <= log.high_watermark:
            raise Broken(f"retention moved the start to {log.log_start_offset}")
        model.start_raised(log.log_start_offset)

    def begin_epoch(self) -> None:
        tracked = self.tracked
        tracked.leader_epoch = max(tracked.leader_epoch, tracked.model.latest_epoch) + 1
        self.log.begin_epoch(tracked.leader_epoch)

    def _note(self, batches: Sequence[Batch]) -> None:
        self.tracked.model.appended(batches)
        for batch in batches:
            self.tracked.producers = producer_reference.after(self.tracked.producers, batch)

    def _note_started_over(self, offset: int) -> None:
        self.tracked.model.started_over(offset)
        self.tracked.producers = {}
        self.tracked.lives = []
