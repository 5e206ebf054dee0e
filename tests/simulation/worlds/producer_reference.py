"""Reference model of producer state: replay the batches, keep everything in tuples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headwater.records.batch_header import MAX_SEQUENCE
from headwater.records.control_batches import read_control
from headwater.storage.producer_state.producer_state_manager import ProducerEntry
from tests.simulation.fakes.batches import Batch

REMEMBERED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A batch of a producer: its sequences and its offsets."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One producer; `transaction_start` is -1 without an open transaction."""

    epoch: int
    sent: tuple[Sent, ...] = ()
    timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_start: int = -1

    def entry(self, producer_id: int) -> ProducerEntry:
        last = self.sent[-1] if self.sent else None
        return ProducerEntry(
            producer_id=producer_id,
            epoch=self.epoch,
            last_sequence=last.last_sequence if last else -1,
            last_offset=last.last_offset if last else -1,
            last_offset_delta=last.last_offset - last.first_offset if last else 0,
            timestamp=self.timestamp,
            coordinator_epoch=self.coordinator_epoch,
            transaction_first_offset=self.transaction_start,
        )


Producers = dict[int, Producer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """An aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def after(producers: Producers, batch: Batch) -> Producers:
    """The state after one more batch; the given one is not changed."""
    header = batch.header
    if header.producer_id < 0:
        return producers
    control = read_control(batch.content, header) if header.is_control else None
    if header.is_control and (control is None or control.coordinator_epoch is None):
        # Compaction has emptied the batch, and with it the marker.
        return producers
    known = producers.get(header.producer_id)
    if known is None or known.epoch != header.producer_epoch:
        known = replace(
            known or Producer(epoch=header.producer_epoch), epoch=header.producer_epoch, sent=()
        )
    if control is not None and control.coordinator_epoch is not None:
        known = replace(known, coordinator_epoch=control.coordinator_epoch, transaction_start=-1)
    else:
        sent = Sent(
            first_sequence=header.base_sequence,
            last_sequence=header.last_sequence,
            first_offset=header.base_offset,
            last_offset=header.last_offset,
        )
        known = replace(known, sent=(*known.sent, sent)[-REMEMBERED:])
        if header.is_transactional and known.transaction_start < 0:
            known = replace(known, transaction_start=header.base_offset)
    return {**producers, header.producer_id: replace(known, timestamp=header.max_timestamp)}


def replay(batches: Iterable[Batch], producers: Producers | None = None) -> Producers:
    state = producers or {}
    for batch in batches:
        state = after(state, batch)
    return state


def adopted(entries: Iterable[ProducerEntry]) -> Producers:
    """The reference for a reloaded log's own entries: one batch per producer."""
    return {entry.producer_id: _adopted(entry) for entry in entries}


def aborted_transactions(batches: Iterable[Batch]) -> list[Aborted]:
    """Every aborted transaction, found from all batches."""
    found: list[Aborted] = []
    state: Producers = {}
    for batch in batches:
        header = batch.header
        if header.is_control and header.producer_id in state:
            start = state[header.producer_id].transaction_start
            control = read_control(batch.content, header)
            if start >= 0 and control is not None and control.is_abort:
                found.append(
                    Aborted(
                        producer_id=header.producer_id,
                        first_offset=start,
                        last_offset=header.base_offset,
                    )
                )
        state = after(state, batch)
    return found


def _adopted(entry: ProducerEntry) -> Producer:
    sent: tuple[Sent, ...] = ()
    if entry.last_offset >= 0:
        sent = (
            Sent(
                first_sequence=(entry.last_sequence - entry.last_offset_delta) & MAX_SEQUENCE,
                last_sequence=entry.last_sequence,
                first_offset=entry.last_offset - entry.last_offset_delta,
                last_offset=entry.last_offset,
            ),
        )
    return Producer(
        epoch=entry.epoch,
        sent=sent,
        timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        transaction_start=entry.transaction_first_offset,
    )
