"""Sequences of an idempotent producer against a model broker under random faults.

The broker is Kafka's rule for one partition; the network loses requests and responses. Acknowledged
records are stored once and in order, and the partition never gets stuck.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.transactions.partition_sequences import PartitionSequences
from headwater.client.producer.transactions.producer_id_and_epoch import ProducerIdAndEpoch
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.mock_cluster import MockPartition

IN_FLIGHT = 5
FIRST = ProducerIdAndEpoch(7, 0)
FATES = st.sampled_from(["fine"] * 4 + ["request lost", "answer lost", "given up"])


def batch(number: int) -> ProducerBatch:
    made = ProducerBatch(
        "tea", 0, builder=None, lock=threading.Lock(), created_ms=0, reserved_bytes=0
    )
    made.adopt(bytearray(build_batch([Record(value=b"%d" % number)] * (1 + number % 3))), 0)
    made.count = 1 + number % 3
    return made


@dataclass
class Lab:
    """Producer of one partition, its network and its broker."""

    waiting: deque[ProducerBatch]
    sequences: PartitionSequences = field(default_factory=PartitionSequences)
    identity: ProducerIdAndEpoch = FIRST
    wire: deque[ProducerBatch] = field(default_factory=deque)
    log: MockPartition = field(default_factory=lambda: MockPartition(leader_id=0))
    confirmed: list[ProducerBatch] = field(default_factory=list)
    failed: list[ProducerBatch] = field(default_factory=list)

    def send(self) -> None:
        while self.waiting and len(self.wire) < IN_FLIGHT:
            first = self.waiting[0]
            if not self.sequences.may_send(first, self.identity):
                return
            self.sequences.assign(first, self.identity)
            self.wire.append(self.waiting.popleft())

    def answer(self, fate: str) -> None:
        sent = self.wire.popleft()
        if fate == "given up":
            # It expires, or the broker rejects it finally.
            self.sequences.failed(sent)
            self.failed.append(sent)
        elif fate == "request lost":
            self.back(sent)
        else:
            error, _ = self.log.append(bytes(sent.stamped(is_transactional=False)))
            if error:
                if self.sequences.is_first(sent):
                    self.sequences.has_gap = True
                self.back(sent)
            elif fate == "answer lost":
                self.back(sent)
            else:
                self.sequences.acked(sent)
                self.confirmed.append(sent)

    def back(self, sent: ProducerBatch) -> None:
        """Put it back into the queue, by its sequence."""
        order = list(self.sequences.incomplete)
        again = sorted([*(b for b in self.waiting if b in order), sent], key=order.index)
        self.waiting = deque([*again, *(b for b in self.waiting if b not in order)])

    def heal(self) -> None:
        if self.sequences.has_gap and not self.wire:
            self.identity = ProducerIdAndEpoch(7, self.identity.epoch + 1)
            self.sequences.begin(self.identity)


@settings(max_examples=300)
@example(7, ["fine", "answer lost", "fine", "fine", "fine", "fine", "request lost"])
@example(3, ["fine", "answer lost", "answer lost", "given up"])
@example(2, ["request lost"])
@given(st.integers(1, 25), st.lists(FATES, max_size=60))
def test_acknowledged_batches_are_stored_once_and_in_order_whatever_is_lost(
    count: int, fates: list[str]
) -> None:
    """IDP-1, IDP-2, IDP-4; KIP-360."""
    batches = [batch(number) for number in range(count)]
    lab = Lab(deque(batches))
    script = deque(fates)
    for _ in range(1_000):
        lab.heal()
        lab.send()
        if not lab.wire:
            break
        lab.answer(script.popleft() if script else "fine")
    assert not lab.waiting, "the partition is stuck"
    assert lab.confirmed + lab.failed != []
    assert len(lab.confirmed) + len(lab.failed) == count
    stored = [record.value for record in lab.log.records]
    numbers = [int(value or b"") for value in stored]
    # An expired batch may be stored all the same, if its response was lost.
    unknown = {batches.index(each) for each in lab.failed}
    expected = [
        number
        for number in range(count)
        for _ in range(1 + number % 3)
        if number not in unknown or number in numbers
    ]
    assert numbers == expected
