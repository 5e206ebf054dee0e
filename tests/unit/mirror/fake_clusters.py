"""In-memory clusters for tests of copying: a source, and a target that can fail at any call."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.client.consumer.offset_range_reader import FetchedBatches
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.errors import OffsetOutOfRange, ProducerFenced
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition
from headwater.records.batch_header import BatchHeader, read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records

T = TypeVar("T")


class Crash(Exception):
    """The task's process has died."""


@dataclass
class FakeSource:
    """A log of one partition; each batch is a separate response."""

    batches: list[bytes]
    earliest: int = 0

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset

    def records(self) -> list[Record]:
        return [
            record
            for batch in self.batches
            for record in read_records(batch, read_header(batch))
            if not read_header(batch).is_control
        ]

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[FetchedBatches]:
        if start < self.earliest:
            raise OffsetOutOfRange(f"{partition} begins at {self.earliest}")
        for batch in self.batches:
            header = read_header(batch)
            if header.last_offset < start or start >= end:
                continue
            placed = () if header.is_control else ((0, header),)
            yield FetchedBatches(
                data=batch, batches=placed, first_offset=start, next_offset=header.next_offset
            )
            start = header.next_offset

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {each: OffsetAndTimestamp(self.earliest, -1, -1) for each in timestamps}


@dataclass
class _Placed:
    offset: int


@dataclass
class Sent:
    """A sent record and its offset."""

    offset: int

    def result(self, timeout: float | None = None) -> _Placed:  # noqa: ARG002
        return _Placed(self.offset)


@dataclass
class Entry:
    """A record of the copy; invisible if its transaction never committed."""

    record: Record
    offset: int
    epoch: int | None


@dataclass
class FakeTarget:
    """A target cluster. Transactions belong to the producer epoch that began them."""

    log: list[Entry] = field(default_factory=list)
    registry: list[tuple[bytes, bytes, int | None]] = field(default_factory=list)
    notes: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    headers: list[BatchHeader] = field(default_factory=list)
    epoch: int = -1
    end: int = 0
    transactions: int = 0
    # Number of calls until the process dies, and whether the last one still takes effect.
    calls_left: int | None = None
    is_last_done: bool = False

    def visible(self) -> list[Record]:
        """Records that a read_committed consumer sees."""
        return [each.record for each in self.log if each.epoch is None or each.epoch < 0]

    def dies(self) -> bool:
        """Whether this call is the last one; raises if it was the one before."""
        if self.calls_left is None:
            return False
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Crash
        if self.calls_left == 0 and not self.is_last_done:
            raise Crash
        return self.calls_left == 0


class FakeProducer:
    """The producer of one process. With a transaction, records become visible at commit."""

    def __init__(self, target: FakeTarget) -> None:
        self._target = target
        self._epoch: int | None = None
        self._offsets: dict[TopicPartition, OffsetAndMetadata] = {}

    def send_batch(self, topic: str, partition: int, batch: bytearray) -> Sent:
        del topic, partition
        is_last = self._target.dies()
        self._check()
        header = read_header(bytes(batch))
        first = self._target.end
        for record in read_records(bytes(batch), header):
            self._target.log.append(Entry(record, self._target.end, self._epoch))
            self._target.end += 1
        self._target.headers.append(header)
        return _or_crash(Sent(first), is_last)

    def send(self, topic: str, value: bytes, key: bytes, partition: int | None = None) -> Sent:
        del topic, partition
        is_last = self._target.dies()
        self._check()
        self._target.registry.append((key, value, self._epoch))
        return _or_crash(Sent(len(self._target.registry)), is_last)

    def init_transactions(self) -> None:
        is_last = self._target.dies()
        self._target.epoch += 1
        self._epoch = self._target.epoch
        self._end(is_committed=False)
        _or_crash(None, is_last)

    def begin_transaction(self) -> None:
        self._check()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str
    ) -> None:
        del group
        is_last = self._target.dies()
        self._check()
        self._offsets = dict(offsets)
        _or_crash(None, is_last)

    def commit_transaction(self) -> None:
        is_last = self._target.dies()
        self._check()
        self._target.notes |= self._offsets
        self._target.transactions += 1
        self._end(is_committed=True)
        _or_crash(None, is_last)

    def abort_transaction(self) -> None:
        self._target.dies()
        self._check()
        self._end(is_committed=False)

    def _check(self) -> None:
        if self._epoch is not None and self._epoch != self._target.epoch:
            raise ProducerFenced("a later task has taken over")

    def _end(self, *, is_committed: bool) -> None:
        """Markers take an offset."""
        target = self._target
        pending = [each for each in target.log if each.epoch is not None and each.epoch >= 0]
        if not pending:
            return
        if is_committed:
            for each in pending:
                each.epoch = -1
            target.registry = [(key, value, None) for key, value, _ in target.registry]
        else:
            target.log = [each for each in target.log if each.epoch is None or each.epoch < 0]
            target.registry = [each for each in target.registry if each[2] is None]
        target.end += 1


class FakeCheckpoints:
    """Committed offsets in the target cluster."""

    def __init__(self, target: FakeTarget) -> None:
        self._target = target

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        del group_id
        return {each: self._target.notes[each] for each in partitions if each in self._target.notes}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        del group_id
        is_last = self._target.dies()
        self._target.notes |= offsets
        _or_crash(None, is_last)


def _or_crash(answer: T, is_last: bool) -> T:
    if is_last:
        raise Crash
    return answer
