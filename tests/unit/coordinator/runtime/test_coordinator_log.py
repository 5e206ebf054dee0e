"""The log of a shard, on a real partition of a broker."""

import random

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, QueueFull, UnreadableRecord
from headwater.common.ids import ProducerId
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.coordinator_log import PartitionCoordinatorLog
from headwater.coordinator.runtime.log_replay import LoggedMarker, LoggedRecord, LogSlice
from headwater.coordinator.runtime.record_batches import batch_of, marker_of
from headwater.metadata.internal_topics import CONSUMER_OFFSETS
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.partition import Partition
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import BrokerLab

PRODUCER = TransactionalProducer(ProducerId(7), 2)


def record(number: int, metadata: str = "") -> OffsetCommitRecord:
    key = OffsetCommitKey(group="g", topic="orders", partition=number)
    return OffsetCommitRecord(key, OffsetCommitValue(offset=5, metadata=metadata))


class Lab:
    def __init__(self, configs: dict[str, str | None] | None = None) -> None:
        self.held = HeldExecutor(random.Random(1))
        self.lab = BrokerLab(executor=self.held)
        self.lab.create(CONSUMER_OFFSETS, configs=configs)
        found = self.lab.broker.partitions.find(CONSUMER_OFFSETS, 0)
        assert isinstance(found, Partition)
        self.partition = found
        self.log = PartitionCoordinatorLog(found, GROUP_RECORDS, self.held)
        self.slices: list[LogSlice | HeadwaterError] = []

    def append(
        self, *records: OffsetCommitRecord, producer: TransactionalProducer | None = None
    ) -> int | ErrorCode:
        return self.log.append(batch_of(records, GROUP_RECORDS, producer, now_ms=5), 5)

    def read(self, offset: int) -> None:
        self.log.read(offset, then=self.slices.append, on_error=self.slices.append)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_an_append_is_committed_and_can_be_read_again(lab: Lab) -> None:
    moves: list[int] = []
    lab.log.watch(lambda: moves.append(lab.log.committed_offset))
    assert (lab.log.start_offset, lab.log.end_offset, lab.log.committed_offset) == (0, 0, 0)
    assert lab.append(record(0), record(1)) == 0
    assert lab.append(record(2), producer=PRODUCER) == 2
    marker = marker_of(PRODUCER, 4, is_commit=True, now_ms=5)
    assert lab.log.append(marker, 5) == 3
    assert (lab.log.end_offset, lab.log.committed_offset) == (4, 4)
    assert moves == [2, 3, 4]
    lab.read(0)
    assert lab.slices == []
    lab.held.finish()
    assert lab.slices == [
        LogSlice(
            next_offset=4,
            entries=(
                LoggedRecord(record=record(0), offset=0, producer_id=None),
                LoggedRecord(record=record(1), offset=1, producer_id=None),
                LoggedRecord(record=record(2), offset=2, producer_id=ProducerId(7)),
                LoggedMarker(ProducerId(7), is_commit=True),
            ),
        )
    ]
    lab.log.unwatch()
    lab.append(record(3))
    assert moves == [2, 3, 4]


def test_an_empty_log_is_read_at_once(lab: Lab) -> None:
    lab.read(0)
    assert lab.slices == [LogSlice(next_offset=0)]


def test_a_long_log_is_read_in_slices(lab: Lab) -> None:
    for number in range(300):
        lab.append(record(number, "x" * 4000))
    offset = 0
    while offset < lab.log.end_offset:
        lab.read(offset)
        lab.held.finish()
        found = lab.slices[-1]
        assert isinstance(found, LogSlice)
        assert found.next_offset > offset
        offset = found.next_offset
    assert len(lab.slices) > 3
    entries = [e for each in lab.slices if isinstance(each, LogSlice) for e in each.entries]
    assert [e.offset for e in entries if isinstance(e, LoggedRecord)] == list(range(300))


def test_a_fenced_producer_is_rejected_and_nothing_is_written(lab: Lab) -> None:
    lab.append(record(0), producer=PRODUCER)
    older = TransactionalProducer(ProducerId(7), 1)
    assert lab.append(record(1), producer=older) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert lab.log.end_offset == 1


def test_a_batch_that_is_too_large_is_rejected() -> None:
    lab = Lab({"max.message.bytes": "1000"})
    assert lab.append(record(0, "x" * 1000)) is ErrorCode.MESSAGE_TOO_LARGE


def test_with_flush_messages_one_a_batch_is_committed_when_it_is_flushed() -> None:
    lab = Lab({"flush.messages": "1"})
    moves: list[int] = []
    lab.log.watch(lambda: moves.append(lab.log.committed_offset))
    lab.append(record(0))
    assert lab.log.committed_offset == 0
    lab.held.finish()
    assert lab.log.committed_offset == 1
    assert moves[-1] == 1


def test_without_a_free_thread_reading_fails(lab: Lab) -> None:
    lab.append(record(0))
    lab.held.is_full = True
    lab.read(0)
    (found,) = lab.slices
    assert isinstance(found, QueueFull)


def test_an_unreadable_record_is_reported(lab: Lab) -> None:
    no_key = build_batch([Record(key=b"\0", timestamp=5)])
    lab.log.append(bytearray(no_key), 5)
    lab.read(0)
    lab.held.finish()
    (found,) = lab.slices
    assert isinstance(found, UnreadableRecord)
