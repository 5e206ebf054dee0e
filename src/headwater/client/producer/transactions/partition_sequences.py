"""Sequence numbers of an idempotent producer in one partition. Pure.

A broker accepts batches of a producer only in order of their sequences and remembers the last five.
This gives exactly-once and order if the client keeps five rules:

- A batch keeps its sequence over all retries, because the broker may have it already.
- The first batch is sent alone, because a broker without state of the producer accepts any
  sequence.
- A retried batch is sent alone, as the first of the unacknowledged ones; those behind it would be
  rejected anyway.
- At most four batches follow one that is not acknowledged, whatever errors it is retried for: a
  broker that has forgotten a batch would reject its retry as out of order.
- When a batch is given up, nothing new is sent until it is clear whether its sequence is missing.
  If so, the epoch is bumped and the partition starts at 0 (KIP-360), but only after all batches in
  flight have returned: otherwise an old and a new batch could overtake each other.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.transactions.producer_id_and_epoch import (
    NO_IDENTITY,
    ProducerIdAndEpoch,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_SEQUENCE
from headwater.records.batch_header import sequence_after

# The number of batches per producer that a broker remembers.
_REMEMBERED: Final = 5

GAPS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""Errors of a broker that is missing earlier batches of the producer."""


@dataclass(slots=True)
class PartitionSequences:
    """The batches sent to a partition that are incomplete, in order of sequences.

    `incomplete` has batches in flight and batches that wait for a retry.
    """

    identity: ProducerIdAndEpoch = NO_IDENTITY
    next_sequence: int = 0
    last_acked: int = NO_SEQUENCE
    incomplete: deque[ProducerBatch] = field(default_factory=deque)
    is_unresolved: bool = False
    """A batch was given up that may have been written or not; nothing new is sent meanwhile."""
    _next_ordinal: int = 0
    has_gap: bool = False
    """A sequence is missing for good; nothing is sent until the epoch is bumped."""

    def may_send(self, batch: ProducerBatch, identity: ProducerIdAndEpoch) -> bool:
        """Whether the partition's next batch may be sent now."""
        if not identity.is_known or self.has_gap:
            return False
        if batch.has_sequence:
            return not self.incomplete or self.incomplete[0] is batch
        if self.is_unresolved:
            return False
        if not self.incomplete:
            return True
        # A new identity starts after the last batch of the old one is complete. And a broker
        # without state of the producer accepts any sequence, so until the first batch is
        # acknowledged a second one could overtake it.
        if identity != self.identity or self.last_acked == NO_SEQUENCE:
            return False
        return self._next_ordinal - self.incomplete[0].ordinal < _REMEMBERED

    def assign(self, batch: ProducerBatch, identity: ProducerIdAndEpoch) -> None:
        """Assign a sequence to a batch that is sent for the first time."""
        if batch.has_sequence:
            return
        if identity != self.identity:
            assert not self.incomplete
            self.begin(identity)
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        batch.producer_id, batch.producer_epoch = identity
        batch.base_sequence = self.next_sequence
        self.next_sequence = sequence_after(self.next_sequence, batch.count)
        self.incomplete.append(batch)

    def begin(self, identity: ProducerIdAndEpoch) -> None:
        """Start at 0 with a new identity; batches that wait for a retry get new sequences."""
        self.identity = identity
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        self.has_gap = self.is_unresolved = False
        for batch in self.incomplete:
            batch.producer_id, batch.producer_epoch = identity
            batch.base_sequence = self.next_sequence
            self.next_sequence = sequence_after(self.next_sequence, batch.count)

    def acked(self, batch: ProducerBatch) -> None:
        """The broker has acknowledged the batch."""
        self._remove(batch)
        last = sequence_after(batch.base_sequence, batch.count - 1)
        if self.last_acked == NO_SEQUENCE or last > self.last_acked or last < batch.base_sequence:
            self.last_acked = last
        self._resolve()

    def failed(self, batch: ProducerBatch) -> None:
        """The batch failed for good, but the broker may have it: a response may be lost.

        Batches sent after it keep their sequences and are retried first. The broker accepts or
        knows them if there is no gap, and rejects them as out of order otherwise.
        """
        if not batch.has_sequence:
            return
        self._remove(batch)
        self.is_unresolved = True
        self._resolve()

    def _resolve(self) -> None:
        """Find a missing sequence from the last acknowledged one, once all are complete."""
        if self.is_unresolved and not self.incomplete:
            self.is_unresolved = False
            expected = 0 if self.last_acked == NO_SEQUENCE else sequence_after(self.last_acked, 1)
            self.has_gap = self.has_gap or expected != self.next_sequence

    def replaced(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Replace a batch that was too large by its parts, with its sequences."""
        if not batch.has_sequence:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = sequence
            part.ordinal = batch.ordinal
            sequence = sequence_after(sequence, part.count)
        self._next_ordinal += len(parts) - 1
        place = self.incomplete.index(batch)
        before = list(self.incomplete)
        self.incomplete = deque([*before[:place], *parts, *before[place + 1 :]])

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch is incomplete that could still fill a gap before it."""
        return not self.incomplete or self.incomplete[0] is batch

    def _remove(self, batch: ProducerBatch) -> None:
        try:
            self.incomplete.remove(batch)
        except ValueError:
            # Split meanwhile, or never assigned a sequence.
            return
