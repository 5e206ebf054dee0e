"""Request the partitions and offsets that a query is planned with.

Note: offsets given by the user must cover exactly the partitions that the query reads, as in
Spark's Kafka connector: a missing partition is more often a mistake than an intention.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.errors import UnknownTopicOrPartition
from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import DataLost, InvalidOption
from headwater.spark.source.source_options import OffsetsAt, SourceSubscription
from headwater.spark.source.topic_offsets import EARLIEST, LATEST, Offsets


class Brokers(Protocol):
    """Requests to brokers, implemented by `client.consumer.offset_range_reader`."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return the number of partitions of each topic."""

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after each timestamp; -1: end, -2: start."""


class OffsetReader:
    """Offsets of one subscription."""

    def __init__(
        self,
        brokers: Brokers,
        subscription: SourceSubscription,
        *,
        latest_if_no_match: bool = False,
    ) -> None:
        self._brokers = brokers
        self._subscription = subscription
        self._latest_if_no_match = latest_if_no_match

    def partitions(self) -> list[TopicPartition]:
        """Return the current partitions of the subscription."""
        wanted = self._subscription
        if wanted.partitions:
            known = self._named({each.topic for each in wanted.partitions})
            for each in wanted.partitions:
                if each.partition >= known[each.topic]:
                    raise InvalidOption(f"assign names {each}, which does not exist")
            return sorted(wanted.partitions)
        if wanted.pattern is not None:
            counts = {
                name: count
                for name, count in self._brokers.topics().items()
                if wanted.pattern.fullmatch(name)
            }
        else:
            counts = self._named(wanted.topics)
        return [
            TopicPartition(topic, number)
            for topic in sorted(counts)
            for number in range(counts[topic])
        ]

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._at(dict.fromkeys(partitions, LATEST))

    def begin(self, place: OffsetsAt) -> dict[TopicPartition, int]:
        """Return the start offsets of a query."""
        return self._resolve(place, "starting", if_no_match=self._latest_if_no_match)

    def end(self, place: OffsetsAt) -> dict[TopicPartition, int]:
        """Return a batch query's end offsets; the log end if no record is that new."""
        return self._resolve(place, "ending", if_no_match=True)

    def _named(self, topics: Iterable[str]) -> dict[str, int]:
        try:
            return self._brokers.topics(topics)
        except UnknownTopicOrPartition as error:
            missing = str(error).removeprefix("topic ").partition(":")[0]
            raise InvalidOption(f"there is no topic {missing}") from None

    def _resolve(
        self, place: OffsetsAt, side: str, *, if_no_match: bool
    ) -> dict[TopicPartition, int]:
        partitions = self.partitions()
        if place.offset is not None:
            return self._at(dict.fromkeys(partitions, place.offset))
        if place.timestamp_ms is not None:
            times = dict.fromkeys(partitions, place.timestamp_ms)
            return self._by_time(times, latest_if_no_match=if_no_match)
        if place.timestamps_ms:
            _refuse_others(f"{side}OffsetsByTimestamp", place.timestamps_ms, partitions)
            return self._by_time(place.timestamps_ms, latest_if_no_match=if_no_match)
        _refuse_others(f"{side}Offsets", place.offsets, partitions)
        named = {each: offset for each, offset in place.offsets.items() if offset < 0}
        return dict(place.offsets) | self._at(named)

    def _at(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not places:
            return {}
        return {each: found.offset for each, found in self._brokers.offsets(places).items()}

    def _by_time(
        self, times: Mapping[TopicPartition, int], *, latest_if_no_match: bool
    ) -> dict[TopicPartition, int]:
        found = self._at(times)
        unmatched = sorted(each for each, offset in found.items() if offset < 0)
        if unmatched and not latest_if_no_match:
            first = unmatched[0]
            raise DataLost(
                f"{first} has no record at or after {times[first]}; with "
                "startingOffsetsByTimestampStrategy=latest the query would start at its end"
            )
        return found | self.latest(unmatched)


def _refuse_others(option: str, given: Offsets, partitions: Iterable[TopicPartition]) -> None:
    known = set(partitions)
    missing = sorted(known - given.keys())
    strange = sorted(given.keys() - known)
    if missing:
        raise InvalidOption(
            f"{option} says nothing of {missing[0]}; use -1 for latest, -2 for earliest"
        )
    if strange:
        raise InvalidOption(f"{option} names {strange[0]}, which the query does not read")
