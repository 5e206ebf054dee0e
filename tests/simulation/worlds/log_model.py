"""Model of a partition's log: a list of batches, and what a crash may remove.

The model knows no segments, indexes or checkpoints. It keeps the exact bytes of every appended
batch, and up to where a finished flush guarantees them.

Note: after a power cut there is no single right answer. What is found must be a slice of the list,
must contain everything that was guaranteed, and then becomes the truth. A truncation that has
returned is durable: what it removed may never be seen again, not even after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.simulation.fakes.batches import Batch, Broken
from tests.simulation.worlds.compaction_rules import expect_compacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Content of a log: all batches in its files, its start and its end."""

    batches: list[Batch]
    start: int
    end: int


class Restart(Enum):
    """How the last life of the process ended."""

    CLEAN = "clean stop"
    PROCESS_CRASH = "process crash"
    POWER_CUT = "power cut"


@dataclass(slots=True)
class FlushPromise:
    """What the callback of a flush will guarantee; a truncation meanwhile lowers it."""

    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """An operation that a crash may interrupt: what it could leave behind."""

    appended: tuple[Batch, ...] = ()
    cut_to: int | None = None
    starts_over: bool = False
    start_up_to: int = 0


@dataclass(slots=True)
class LogModel:
    """One partition, as its users know it."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    flushed_end: int = 0
    latest_epoch: int = 0
    is_compacted: bool = False
    # A crash may undo a raised log start, but not what has been forgotten because of it.
    former_starts: list[int] = field(default_factory=list)
    in_flight: InFlight | None = None
    worst_restart: Restart = Restart.CLEAN
    # A flush guarantees the folder as well, and its partition metadata.
    is_folder_flushed: bool = False
    # What a truncation removed that a process crash interrupted before it was synced. A power cut
    # may bring it back, until the next flush; a follower then truncates again by its epochs.
    undone: list[Batch] = field(default_factory=list)
    _promises: list[FlushPromise] = field(default_factory=list)

    # Operations.

    def appended(self, batches: Sequence[Batch]) -> None:
        self.in_flight = None
        if batches:
            self.batches += batches
            self.end = batches[-1].next
            self.latest_epoch = max(self.latest_epoch, batches[-1].header.leader_epoch)

    def truncated(self, offset: int, end: int) -> None:
        """Truncate at an offset; the log then ends there, or where the batch before ends."""
        self.in_flight = None
        self.batches = [batch for batch in self.batches if batch.next <= offset]
        if end > offset or any(batch.next > end for batch in self.batches[-1:]):
            raise Broken(f"cut at {offset}, the log ends at {end}")
        self._retreat_to(end)

    def started_over(self, offset: int) -> None:
        self.in_flight = None
        self.batches = []
        self._retreat_to(offset)
        self.start = self.flushed_end = offset

    def start_raised(self, offset: int) -> None:
        self.in_flight = None
        if offset > self.start:
            self.start = offset
            self.former_starts.append(offset)

    def flush_asked(self) -> FlushPromise:
        promise = FlushPromise(self.end)
        self._promises.append(promise)
        return promise

    def flushed(self, promise: FlushPromise) -> None:
        if promise not in self._promises:
            raise Broken("a flush called back twice, or from a former life")
        self._promises = [each for each in self._promises if each is not promise]
        self.flushed_end = max(self.flushed_end, promise.end)
        self.is_folder_flushed = True
        self.undone = []

    def flush_refused(self, promise: FlushPromise) -> None:
        self._promises = [each for each in self._promises if each is not promise]

    def closed(self) -> None:
        """A clean stop is a flush."""
        self.flushed_end = self.end
        self.undone = []
        self._promises.clear()

    # Restarts.

    def crashed(self, restart: Restart) -> None:
        """The guarantees of the old life are void; several crashes may follow in a row."""
        self._promises.clear()
        if restart is Restart.POWER_CUT or self.worst_restart is Restart.CLEAN:
            self.worst_restart = restart

    def settle(self, found: Found) -> None:
        """Check what a start found, and take it for the truth from here on."""
        restart, self.worst_restart = self.worst_restart, Restart.CLEAN
        in_flight, self.in_flight = self.in_flight or InFlight(start_up_to=self.start), None
        if restart is Restart.CLEAN:
            self._expect_all(found)
            return
        self._expect_flushed(found, restart, in_flight)
        history = known = [*self.batches, *in_flight.appended]
        if self.is_compacted:
            history = list(found.batches)
        elif restart is Restart.POWER_CUT and not _is_slice(found.batches, history):
            history = self.undone
        if not _is_slice(found.batches, history):
            raise Broken(
                f"found {_spans(found.batches)} after a {restart.value}, "
                f"which is no part of {_spans(history)}"
            )
        _expect_well_bounded(found, history)
        self.former_starts.append(max(self.start, in_flight.start_up_to))
        last = found.batches[-1].next if found.batches else found.start
        self.batches = [batch for batch in history if batch.next <= last]
        self.start, self.end = found.start, found.end
        # What a power cut left is on disk; what a process crash left may be in memory only.
        is_on_disk = restart is Restart.POWER_CUT
        if is_on_disk:
            self.undone = []
        elif in_flight.cut_to is not None or in_flight.starts_over:
            self.undone = known
        self.flushed_end = found.end if is_on_disk else min(self.flushed_end, found.end)

    def _expect_all(self, found: Found) -> None:
        """After a clean stop, and at any time while the log is open."""
        if self.is_compacted:
            expect_compacted(self.batches, found.batches, start=self.start, floor=self.end)
            # Segments that retention removed may come back until their renaming is durable.
            first = found.batches[0].base if found.batches else found.start
            older = [batch for batch in self.batches if batch.next <= min(first, self.start)]
            self.batches = older + found.batches
        expected = [batch for batch in self.batches if batch.next > self.start]
        # The part below the start exists as far as whole segments contain it.
        readable = [batch for batch in found.batches if batch.next > found.start]
        _expect_same(expected, readable)
        below = found.batches[: len(found.batches) - len(readable)]
        older = [batch for batch in self.batches if batch.next <= self.start]
        _expect_same(older[len(older) - len(below) :], below)
        if (found.start, found.end) != (self.start, self.end):
            raise Broken(
                f"the log spans {found.start} to {found.end} instead of {self.start} to {self.end}"
            )

    def expect(self, found: Found) -> None:
        """The open log contains everything that was appended and not removed again."""
        self._expect_all(found)

    def _expect_flushed(self, found: Found, restart: Restart, in_flight: InFlight) -> None:
        if in_flight.starts_over and not self.is_compacted:
            return
        floor = self.flushed_end if restart is Restart.POWER_CUT else self.end
        if in_flight.cut_to is not None:
            floor = min(floor, in_flight.cut_to)
        if in_flight.starts_over:
            floor = 0
        start = max(self.start, in_flight.start_up_to)
        if self.is_compacted:
            history = [*self.batches, *in_flight.appended]
            if restart is Restart.POWER_CUT and not _stems_from(history, found.batches):
                history = self.undone
            expect_compacted(history, found.batches, start=start, floor=floor)
            return
        contents = {batch.base: batch.content for batch in found.batches}
        for batch in self.batches:
            if start < batch.next <= floor and contents.get(batch.base) != batch.content:
                raise Broken(
                    f"batch {_span(batch)} was safe up to {floor} and is lost after a "
                    f"{restart.value}: found {found.start} to {found.end}"
                )
            if start < batch.next <= floor and batch.next <= found.start:
                raise Broken(f"batch {_span(batch)} lies below the start {found.start}")

    def _retreat_to(self, offset: int) -> None:
        self.end = offset
        if offset < self.start:
            self.start = offset
            self.former_starts.append(offset)
        self.flushed_end = min(self.flushed_end, offset)
        for promise in self._promises:
            promise.end = min(promise.end, offset)


def _expect_same(expected: Sequence[Batch], found: Sequence[Batch]) -> None:
    if [batch.content for batch in expected] == [batch.content for batch in found]:
        return
    for index, batch in enumerate(expected):
        if index >= len(found) or found[index].content != batch.content:
            there = _span(found[index]) if index < len(found) else "the end"
            raise Broken(f"expected batch {_span(batch)}, found {there}")
    raise Broken(f"found {_span(found[len(expected)])}, which is not in the log")


def _expect_well_bounded(found: Found, history: Sequence[Batch]) -> None:
    if not found.batches:
        if found.end != found.start:
            raise Broken(f"an empty log spans {found.start} to {found.end}")
        return
    first, last = found.batches[0], found.batches[-1]
    if not found.start <= found.end or found.end != last.next:
        raise Broken(f"the log ends at {found.end}, its last batch at {last.next}")
    for batch in history:
        if found.start < batch.next and batch.base < first.base:
            raise Broken(f"{_span(batch)} is missing in a log that starts at {found.start}")


def _stems_from(history: Sequence[Batch], found: Sequence[Batch]) -> bool:
    """Return whether compaction may have made one of the other."""
    return {(each.base, each.next) for each in found} <= {
        (each.base, each.next) for each in history
    }


def _is_slice(part: Sequence[Batch], whole: Sequence[Batch]) -> bool:
    if not part:
        return True
    contents = [batch.content for batch in part]
    for index, batch in enumerate(whole):
        if batch.base == part[0].base:
            return [each.content for each in whole[index : index + len(part)]] == contents
    return False


def _spans(batches: Sequence[Batch]) -> str:
    return ", ".join(map(_span, batches)) or "nothing"


def _span(batch: Batch) -> str:
    header = batch.header
    return f"{header.base_offset}-{header.last_offset}@{header.leader_epoch}"
