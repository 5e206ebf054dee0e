"""The sequence numbers of an idempotent producer in one partition. Pure.

A broker takes batches of a producer only in the order of their sequences, and knows the last five
of them by heart. That gives exactly-once and order as long as this side keeps five rules:

- A batch keeps its sequence over all retries, since the broker may have it already.
- The first batch goes alone, because a broker that knows nothing of the producer takes any number.
- A batch that is sent again goes alone, as the first of those without an answer; the ones behind
  it would be refused anyway.
- No batch is followed by more than four others before it is confirmed, on whatever errors it is
  sent again: a broker that has forgotten a batch would call its repetition out of order.
- When a batch is given up, nothing new leaves until it is clear whether its number is missing. If
  so, the producer's epoch rises, and the partition begins at 0 (KIP-360), but not before all that
  is on its way has come back: else an old and a new batch could overtake each other.
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

# How many batches of a producer a broker knows again.
_REMEMBERED: Final = 5

GAPS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""How a broker says that a batch does not follow the last one it has of the producer."""


@dataclass(slots=True)
class PartitionSequences:
    """What was sent to a partition and is not settled, in the order of sequences.

    `unsettled` has batches on the wire and batches that wait to be sent again.
    """

    identity: ProducerIdAndEpoch = NO_IDENTITY
    next_sequence: int = 0
    last_acked: int = NO_SEQUENCE
    unsettled: deque[ProducerBatch] = field(default_factory=deque)
    is_unresolved: bool = False
    """A batch was given up, and may have been stored or not; nothing new leaves meanwhile."""
    _next_ordinal: int = 0
    has_gap: bool = False
    """A number is missing for good; nothing leaves until the epoch has risen."""

    def may_send(self, batch: ProducerBatch, identity: ProducerIdAndEpoch) -> bool:
        """Whether the partition's next batch may leave now."""
        if not identity.is_known or self.has_gap:
            return False
        if batch.has_sequence:
            return not self.unsettled or self.unsettled[0] is batch
        if self.is_unresolved:
            return False
        if not self.unsettled:
            return True
        # A new identity begins when the last batch of the old one is settled. And a broker that
        # has nothing of a producer takes any number from it, so until the first batch is
        # confirmed a second one could overtake it.
        if identity != self.identity or self.last_acked == NO_SEQUENCE:
            return False
        return self._next_ordinal - self.unsettled[0].ordinal < _REMEMBERED

    def assign(self, batch: ProducerBatch, identity: ProducerIdAndEpoch) -> None:
        """Give a batch that leaves for the first time its place."""
        if batch.has_sequence:
            return
        if identity != self.identity:
            assert not self.unsettled
            self.begin(identity)
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        batch.producer_id, batch.producer_epoch = identity
        batch.base_sequence = self.next_sequence
        self.next_sequence = sequence_after(self.next_sequence, batch.count)
        self.unsettled.append(batch)

    def begin(self, identity: ProducerIdAndEpoch) -> None:
        """Start at 0 under a new identity; what waits to be sent again is numbered anew."""
        self.identity = identity
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        self.has_gap = self.is_unresolved = False
        for batch in self.unsettled:
            batch.producer_id, batch.producer_epoch = identity
            batch.base_sequence = self.next_sequence
            self.next_sequence = sequence_after(self.next_sequence, batch.count)

    def acked(self, batch: ProducerBatch) -> None:
        """The broker has it."""
        self._remove(batch)
        last = sequence_after(batch.base_sequence, batch.count - 1)
        if self.last_acked == NO_SEQUENCE or last > self.last_acked or last < batch.base_sequence:
            self.last_acked = last
        self._resolve()

    def given_up(self, batch: ProducerBatch) -> None:
        """It failed for good, but who knows whether the broker has it: an answer may be lost.

        What was sent behind it keeps its numbers and is asked for first. The broker takes or
        knows it if there is no hole, and else refuses it as out of order.
        """
        if not batch.has_sequence:
            return
        self._remove(batch)
        self.is_unresolved = True
        self._resolve()

    def _resolve(self) -> None:
        """When all else is settled, the last confirmed number tells whether one is missing."""
        if self.is_unresolved and not self.unsettled:
            self.is_unresolved = False
            expected = 0 if self.last_acked == NO_SEQUENCE else sequence_after(self.last_acked, 1)
            self.has_gap = self.has_gap or expected != self.next_sequence

    def replaced(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """It was refused for its size; its parts have its place and its numbers."""
        if not batch.has_sequence:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = sequence
            part.ordinal = batch.ordinal
            sequence = sequence_after(sequence, part.count)
        self._next_ordinal += len(parts) - 1
        place = self.unsettled.index(batch)
        before = list(self.unsettled)
        self.unsettled = deque([*before[:place], *parts, *before[place + 1 :]])

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch waits, one that could still fill a hole before it."""
        return not self.unsettled or self.unsettled[0] is batch

    def _remove(self, batch: ProducerBatch) -> None:
        try:
            self.unsettled.remove(batch)
        except ValueError:
            # Split meanwhile, or never numbered.
            return
