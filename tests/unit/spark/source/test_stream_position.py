"""Where a streaming query stands, over restarts, limits and losses."""

import json
from dataclasses import replace

import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import DataLost
from headwater.spark.source.batch_plan import OffsetRange
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.source_options import SourceOptions, read_source_options
from headwater.spark.source.stream_position import StreamPosition
from headwater.spark.source.topic_offsets import Position, from_document, to_document
from tests.unit.spark.fake_brokers import FakeBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Lab:
    """A query that can be started again, on brokers that go on meanwhile."""

    def __init__(self, *counts: int, **options: str) -> None:
        given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"} | options
        self.options = read_source_options(given, is_streaming=True)
        self.brokers = FakeBrokers(t=list(counts))
        self.now_ms = 0
        self.warnings: list[str] = []
        self.bytes_per_offset = 1024.0
        self.restart(self.options)

    def restart(self, options: SourceOptions) -> None:
        lookup = OffsetReader(self.brokers, options.subscription)
        self.stream = StreamPosition(
            options,
            lookup,
            steady_ms=lambda: self.now_ms,
            warn=self.warnings.append,
            measure=lambda _partition, _offset: self.bytes_per_offset,
        )

    def next_end(self, at: Position) -> Position:
        """As Spark sees it: through texts."""
        document = self.stream.next_end(_through_text(at))
        return _through_text(document)


def _through_text(position: Position) -> Position:
    return from_document(json.loads(json.dumps(to_document(position))))


def test_a_batch_goes_from_the_start_to_what_is_there() -> None:
    lab = Lab(4, 6, startingOffsets="earliest")
    start = lab.stream.initial()
    end = lab.next_end(start)
    assert lab.stream.plan(start, end) == [OffsetRange(T0, 0, 4), OffsetRange(T1, 0, 6)]


def test_without_anything_new_the_position_is_the_same_text() -> None:
    lab = Lab(4)
    first = lab.stream.initial()
    assert lab.next_end(first) == first
    lab.brokers.add(T0, 1)
    end = lab.next_end(first)
    again = lab.next_end(end)
    assert json.dumps(to_document(again)) == json.dumps(to_document(end))


def test_a_repeated_first_batch_begins_where_it_began_though_latest_is_later_now() -> None:
    lab = Lab(4)
    start = lab.stream.initial()
    lab.brokers.add(T0, 3)
    end = lab.next_end(start)
    lab.brokers.add(T0, 10)
    lab.restart(lab.options)
    later = lab.stream.initial()
    assert later.offsets == {T0: 17}
    assert lab.stream.plan(later, end) == [OffsetRange(T0, 4, 7)]


def test_later_batches_do_not_carry_their_start() -> None:
    lab = Lab(4)
    start = lab.stream.initial()
    lab.brokers.add(T0, 3)
    first = lab.next_end(start)
    lab.brokers.add(T0, 3)
    second = lab.next_end(first)
    assert first.start == {T0: 4}
    assert second == Position({T0: 10})


def test_a_new_partition_is_read_from_its_beginning() -> None:
    lab = Lab(4)
    start = lab.stream.initial()
    lab.brokers.add(T1, 2)
    end = lab.next_end(start)
    assert lab.stream.plan(start, end) == [OffsetRange(T1, 0, 2)]
    assert lab.warnings == []


def test_limits_hold_for_each_batch() -> None:
    lab = Lab(100, 300, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    start = lab.stream.initial()
    end = lab.next_end(start)
    assert end.offsets == {T0: 10, T1: 30}
    assert lab.next_end(end).offsets == {T0: 20, T1: 60}


def test_a_limit_in_bytes_goes_by_what_the_next_records_are_like() -> None:
    lab = Lab(100, startingOffsets="earliest", maxBytesPerTrigger="10240")
    end = lab.next_end(lab.stream.initial())
    assert end.offsets == {T0: 10}
    lab.bytes_per_offset = 512.0
    assert lab.next_end(end).offsets == {T0: 30}


def test_a_batch_waits_for_its_minimum_but_not_for_ever() -> None:
    lab = Lab(10, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1s")
    end = lab.next_end(lab.stream.initial())
    lab.brokers.add(T0, 4)
    assert lab.next_end(end) == end
    lab.now_ms = 1000
    assert lab.next_end(end).offsets == {T0: 14}


def test_a_query_over_what_is_there_stops_where_it_was_at_the_beginning() -> None:
    lab = Lab(10, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    lab.stream.stop_at_present()
    lab.brokers.add(T0, 50)
    first = lab.next_end(lab.stream.initial())
    second = lab.next_end(first)
    assert (first.offsets, second.offsets) == ({T0: 6}, {T0: 10})
    assert lab.next_end(second) == second


def test_lost_records_stop_a_query_unless_it_may_go_on() -> None:
    lab = Lab(10, 5, startingOffsets="earliest")
    start = lab.stream.initial()
    del lab.brokers.logs[T1]
    end = lab.next_end(start)
    with pytest.raises(DataLost, match=r"t-1 were deleted.*failOnDataLoss"):
        lab.stream.plan(start, end)
    lab.restart(replace(lab.options, fail_on_data_loss=False))
    assert lab.stream.plan(start, end) == [OffsetRange(T0, 0, 10)]
    assert len(lab.warnings) == 1


def test_a_stream_with_an_end_reads_up_to_it_and_no_further() -> None:
    lab = Lab(4, 6, startingOffsets="earliest", untilOffsets='{"t": {"0": 3, "1": 9}}')
    start = lab.stream.initial()
    end = lab.next_end(start)
    assert end.offsets == {T0: 3, T1: 6}
    lab.brokers.add(T0, 5)
    lab.brokers.add(T1, 5)
    last = lab.next_end(end)
    assert last.offsets == {T0: 3, T1: 9}
    assert lab.next_end(last) == last
    # Lag is what is left of the range.
    assert lab.stream.latest == {T0: 3, T1: 9}


def test_partitions_without_an_end_stay_where_they_are() -> None:
    lab = Lab(4, 6, startingOffsets='{"t": {"0": 2, "1": 5}}', untilOffsets='{"t": {"0": 1}}')
    lab.brokers.add(TopicPartition("t", 2), 7)
    start = Position({T0: 2, T1: 5})
    assert lab.next_end(start).offsets == start.offsets
