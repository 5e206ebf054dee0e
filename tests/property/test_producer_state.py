"""ProducerStateManager, compared with a reference that remembers the whole history.

The reference answers every query by walking over all events from the start; the shipped state
answers from the little that it keeps.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.common.exceptions import (
    HeadwaterError,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)
from headwater.records.batch_header import MAX_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from headwater.storage.producer_state.producer_snapshot import decode, encode
from headwater.storage.producer_state.producer_state_manager import (
    AppendOrigin,
    ProducerEntry,
    ProducerStateManager,
)

PRODUCERS = st.integers(0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Data batch in the log."""

    header: BatchHeader
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """COMMIT or ABORT marker in the log."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    offset: int
    timestamp: int
    is_abort: bool


Event = Data | Marker


@dataclass(slots=True)
class History:
    """All events ever written, and the results derived from them."""

    events: list[Event] = field(default_factory=list)

    def epoch(self, producer_id: int) -> int | None:
        epochs = [_epoch(event) for event in self.events if _producer(event) == producer_id]
        return epochs[-1] if epochs else None

    def batches(self, producer_id: int) -> list[Data]:
        """The producer's batches since its epoch last changed."""
        found: list[Data] = []
        epoch: int | None = None
        for event in self.events:
            if _producer(event) != producer_id:
                continue
            if _epoch(event) != epoch:
                found, epoch = [], _epoch(event)
            if isinstance(event, Data):
                found.append(event)
        return found

    def transactions(self) -> list[tuple[int, int | None]]:
        """First offset and marker offset (None while open) of every transaction."""
        ended: list[tuple[int, int | None]] = []
        opened: dict[int, int] = {}
        for event in self.events:
            match event:
                case Data() if event.header.is_transactional:
                    opened.setdefault(event.header.producer_id, event.offset)
                case Marker() if event.producer_id in opened:
                    ended.append((opened.pop(event.producer_id), event.offset))
        return ended + [(first, None) for first in opened.values()]

    def is_open(self, producer_id: int) -> bool:
        firsts = {first for first, marker in self.transactions() if marker is None}
        return any(
            event.offset in firsts
            for event in self.events
            if isinstance(event, Data) and event.header.producer_id == producer_id
        )

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        return min(
            (
                first
                for first, marker in self.transactions()
                if marker is None or marker >= high_watermark
            ),
            default=None,
        )

    def expected_error(self, header: BatchHeader) -> type[HeadwaterError] | None:
        epoch = self.epoch(header.producer_id)
        if epoch is None:
            return None
        if header.producer_epoch < epoch:
            return InvalidProducerEpoch
        batches = self.batches(header.producer_id)
        expected = 0
        if header.producer_epoch == epoch and batches:
            last = batches[-1].header
            expected = (last.base_sequence + last.last_offset_delta + 1) % 2**31
        if header.base_sequence != expected:
            return OutOfOrderSequenceNumber
        if self.is_open(header.producer_id) and not header.is_transactional:
            return InvalidTxnState
        return None


def _producer(event: Event) -> int:
    return event.header.producer_id if isinstance(event, Data) else event.producer_id


def _epoch(event: Event) -> int:
    return event.header.producer_epoch if isinstance(event, Data) else event.epoch


def replay(states: ProducerStateManager, events: list[Event]) -> None:
    for event in events:
        match event:
            case Data():
                states.record(event.header, first_offset=event.offset, timestamp=event.timestamp)
            case Marker():
                states.record_marker(
                    producer_id=event.producer_id,
                    epoch=event.epoch,
                    coordinator_epoch=event.coordinator_epoch,
                    is_abort=event.is_abort,
                    offset=event.offset,
                    timestamp=event.timestamp,
                )


def by_producer(entries: list[ProducerEntry]) -> dict[int, ProducerEntry]:
    return {entry.producer_id: entry for entry in entries}


class ProducerStatesMachine(RuleBasedStateMachine):
    """Writes, markers, a moving high watermark and crashes, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStateManager()
        self.history = History()
        self.end_offset = 0
        self.high_watermark = 0
        self.coordinator_epoch = 0
        # Number of events covered by the last loaded snapshot.
        self.covered = 0
        self.loaded_offset = 0
        # (end offset, events so far, file content)
        self.snapshots: list[tuple[int, int, bytes]] = [(0, 0, encode([]))]

    @rule(
        producer_id=PRODUCERS,
        epoch_step=st.sampled_from([0, 0, 0, 0, 1, -1]),
        records=st.integers(1, 3),
        sequence=st.sampled_from(["next", "next", "next", "zero", "wrap"]),
        transactional=st.booleans(),
    )
    def write(
        self, producer_id: int, epoch_step: int, records: int, sequence: str, transactional: bool
    ) -> None:
        self._offer(self._header(producer_id, epoch_step, records, sequence, transactional))

    @rule(producer_id=PRODUCERS, back=st.integers(1, 7))
    def write_again(self, producer_id: int, back: int) -> None:
        batches = self.history.batches(producer_id)
        if back <= len(batches):
            self._offer(batches[-back].header)

    def _offer(self, header: BatchHeader) -> None:
        duplicate = self.states.find_duplicate(header)
        # A snapshot has only the producer's last timestamp, which may be a marker's.
        assert (duplicate and duplicate[:4]) == self._expected_duplicate(header)
        if duplicate is not None:
            return
        expected_error = self.history.expected_error(header)
        if expected_error is not None:
            with pytest.raises(expected_error):
                self.states.check(header, AppendOrigin.CLIENT)
            return
        self.states.check(header, AppendOrigin.CLIENT)
        batch = Data(header=header, offset=self.end_offset, timestamp=self.end_offset)
        self._append(batch, header.record_count)

    @rule(producer_id=PRODUCERS, epoch_step=st.integers(0, 1), is_abort=st.booleans())
    def end_transaction(self, producer_id: int, epoch_step: int, is_abort: bool) -> None:
        self.coordinator_epoch += 1
        marker = Marker(
            producer_id=producer_id,
            epoch=(self.history.epoch(producer_id) or 0) + epoch_step,
            coordinator_epoch=self.coordinator_epoch,
            offset=self.end_offset,
            timestamp=self.end_offset,
            is_abort=is_abort,
        )
        self._append(marker, 1)

    @rule(step=st.integers(0, 4))
    def move_the_watermark(self, step: int) -> None:
        self.high_watermark = min(self.high_watermark + step, self.end_offset)
        self.states.high_watermark_moved(self.high_watermark)

    @rule()
    def take_a_snapshot(self) -> None:
        content = encode(self.states.entries())
        self.snapshots.append((self.end_offset, len(self.history.events), content))

    @precondition(lambda self: self.history.events)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """RC-4: load the newest snapshot up to there, then replay the log."""
        keep = data.draw(st.integers(0, len(self.history.events)))
        dropped = self.history.events[keep:]
        self.end_offset = dropped[0].offset if dropped else self.end_offset
        self.high_watermark = min(self.high_watermark, self.end_offset)
        del self.history.events[keep:]
        self.snapshots = [taken for taken in self.snapshots if taken[0] <= self.end_offset]
        self.loaded_offset, self.covered, content = self.snapshots[-1]
        self.states.load(decode(content))
        replay(self.states, self.history.events[self.covered :])

    @invariant()
    def it_equals_a_replay_of_the_whole_log(self) -> None:
        fresh = ProducerStateManager()
        replay(fresh, self.history.events)
        assert by_producer(self.states.entries()) == by_producer(fresh.entries())

    @invariant()
    def the_stable_offset_is_the_brute_force_one(self) -> None:
        """LSO-1; with a snapshot, transactions that ended before it count as replicated."""
        replicated = max(self.high_watermark, self.loaded_offset)
        unstable = self.history.first_unstable_offset(replicated)
        assert self.states.first_unstable_offset(self.high_watermark) == unstable
        stable = self.states.last_stable_offset(
            high_watermark=self.high_watermark, log_start_offset=0
        )
        assert stable == min(
            self.high_watermark, self.high_watermark if unstable is None else unstable
        )

    def _append(self, event: Event, records: int) -> None:
        self.history.events.append(event)
        replay(self.states, [event])
        self.end_offset += records

    def _header(
        self, producer_id: int, epoch_step: int, records: int, sequence: str, transactional: bool
    ) -> BatchHeader:
        batches = self.history.batches(producer_id)
        blank = BatchHeader(
            base_offset=0,
            length=100,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=TRANSACTIONAL_FLAG if transactional else 0,
            last_offset_delta=records - 1,
            base_timestamp=0,
            max_timestamp=0,
            producer_id=producer_id,
            producer_epoch=max(0, (self.history.epoch(producer_id) or 0) + epoch_step),
            base_sequence=0,
            record_count=records,
        )
        match sequence:
            case "next" if batches:
                last = batches[-1].header
                following = (last.base_sequence + last.last_offset_delta + 1) % 2**31
                return blank._replace(base_sequence=following)
            case "wrap":
                return blank._replace(base_sequence=MAX_SEQUENCE)
            case _:
                return blank

    def _expected_duplicate(self, header: BatchHeader) -> tuple[int, int, int, int] | None:
        if header.producer_epoch != self.history.epoch(header.producer_id):
            return None
        sequences = (header.base_sequence, header.last_offset_delta)
        for written in self._remembered(header.producer_id):
            if (written.header.base_sequence, written.header.last_offset_delta) == sequences:
                last_offset = written.offset + header.last_offset_delta
                return header.base_sequence, header.last_sequence, written.offset, last_offset
        return None

    def _remembered(self, producer_id: int) -> list[Data]:
        """Return the last five batches, except that a snapshot has only the last one before it."""
        in_snapshot = History(self.history.events[: self.covered]).batches(producer_id)
        forgotten = in_snapshot[:-1]
        batches = self.history.batches(producer_id)
        return [batch for batch in batches if batch not in forgotten][-5:]


TestProducerStates = ProducerStatesMachine.TestCase
TestProducerStates.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
