"""Which partitions a query reads, and where it begins and ends."""

import re

import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import DataLost, InvalidOption
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.source_options import OffsetsAt, SourceSubscription
from headwater.spark.source.topic_offsets import EARLIEST, LATEST
from tests.unit.spark.fake_brokers import FakeBrokers

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
AB = SourceSubscription(topics=("a", "b"))


def test_topics_are_read_with_all_their_partitions() -> None:
    assert OffsetReader(FakeBrokers(a=[1, 1], b=[1]), AB).partitions() == [A0, A1, B0]


def test_a_pattern_must_match_the_whole_name() -> None:
    brokers = FakeBrokers(a=[1, 1], ab=[1])
    assert OffsetReader(brokers, SourceSubscription(pattern=re.compile("a"))).partitions() == [
        A0,
        A1,
    ]


def test_assigned_partitions_must_exist() -> None:
    brokers = FakeBrokers(a=[1])
    assert OffsetReader(brokers, SourceSubscription(partitions=(A0,))).partitions() == [A0]
    with pytest.raises(InvalidOption, match="a-1, which does not exist"):
        OffsetReader(brokers, SourceSubscription(partitions=(A1,))).partitions()


def test_a_topic_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(InvalidOption, match="there is no topic b"):
        OffsetReader(FakeBrokers(a=[1]), AB).partitions()


def test_a_query_may_begin_at_either_end() -> None:
    brokers = FakeBrokers(a=[5, 3], b=[7])
    brokers.logs[A0].start = 2
    lookup = OffsetReader(brokers, AB)
    assert lookup.begin(OffsetsAt(offset=EARLIEST)) == {A0: 2, A1: 0, B0: 0}
    assert lookup.begin(OffsetsAt(offset=LATEST)) == {A0: 5, A1: 3, B0: 7}


def test_each_partition_may_have_its_own_offset_or_end() -> None:
    lookup = OffsetReader(FakeBrokers(a=[5, 3], b=[7]), AB)
    place = OffsetsAt(offsets={A0: 4, A1: EARLIEST, B0: LATEST})
    assert lookup.begin(place) == {A0: 4, A1: 0, B0: 7}


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ({A0: 1}, "says nothing of a-1"),
        ({A0: 1, A1: 1, B0: 1, TopicPartition("c", 0): 1}, "names c-0, which"),
    ],
)
def test_offsets_must_be_given_for_exactly_what_is_read(
    offsets: dict[TopicPartition, int], reason: str
) -> None:
    with pytest.raises(InvalidOption, match=reason):
        OffsetReader(FakeBrokers(a=[5, 3], b=[7]), AB).begin(OffsetsAt(offsets=offsets))


def test_a_query_may_begin_at_a_time() -> None:
    lookup = OffsetReader(FakeBrokers(a=[5, 5], b=[7]), AB)
    assert lookup.begin(OffsetsAt(timestamp_ms=2500)) == {A0: 3, A1: 3, B0: 3}
    times = {A0: 0, A1: 1000, B0: 6000}
    assert lookup.begin(OffsetsAt(timestamps_ms=times)) == {A0: 0, A1: 1, B0: 6}


def test_a_time_after_the_last_record_is_an_error_or_the_end() -> None:
    brokers = FakeBrokers(a=[5, 2], b=[7])
    place = OffsetsAt(timestamp_ms=4000)
    with pytest.raises(DataLost, match=r"a-1 has no record at or after 4000"):
        OffsetReader(brokers, AB).begin(place)
    lenient = OffsetReader(brokers, AB, latest_if_no_match=True)
    assert lenient.begin(place) == {A0: 4, A1: 2, B0: 4}


def test_an_end_after_the_last_record_is_the_end() -> None:
    lookup = OffsetReader(FakeBrokers(a=[5, 2], b=[7]), AB)
    assert lookup.end(OffsetsAt(timestamp_ms=4000)) == {A0: 4, A1: 2, B0: 4}
