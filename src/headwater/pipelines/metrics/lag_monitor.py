"""Measure the lag of a pipeline's sinks, in records and in time.

Spark reports lag only with a batch. A query that hangs, waits for a restart or runs a batch of
several minutes reports nothing, which is when the lag is of interest.

The lag in time is the age of the oldest record that is not read yet: zero for a sink that has read
everything, however old the last record is.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self

from headwater.client.consumer.lag_reader import LagReader
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import TopicPartition
from headwater.pipelines.check.pipeline_check import source_options
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.spark.source.source_options import SourceSubscription
from headwater.spark.source.topic_offsets import LATEST, Offsets

_log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 5.0
# Only the first record is needed.
_SMALL_LOOKS: Final = {"max.partition.fetch.bytes": "65536"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Lag of a sink."""

    records: int
    time_ms: int


class LagBrokers(Protocol):
    """Requests to one cluster."""

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]: ...

    def first_timestamp_ms(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the timestamp of the first record at or after an offset, if any."""


def lag_of(sinks: Mapping[str, Offsets], brokers: LagBrokers, *, now_ms: int) -> dict[str, Lag]:
    """Compute the lag of sinks from the offsets that they have read in one cluster."""
    partitions = {each for ends in sinks.values() for each in ends}
    if not partitions:
        return {}
    latest = brokers.offsets(dict.fromkeys(sorted(partitions), LATEST))
    ages_ms: dict[tuple[TopicPartition, int], int] = {}
    found = {}
    for name, ends in sinks.items():
        records = time_ms = 0
        for each, offset in ends.items():
            behind = latest[each].offset - offset
            if behind > 0:
                if (each, offset) not in ages_ms:
                    stamp_ms = brokers.first_timestamp_ms(each, offset)
                    ages_ms[each, offset] = 0 if stamp_ms is None else max(now_ms - stamp_ms, 0)
                records += behind
                time_ms = max(time_ms, ages_ms[each, offset])
        found[name] = Lag(records=records, time_ms=time_ms)
    return found


def reads(subscription: SourceSubscription, topic: str) -> bool:
    if subscription.pattern is not None:
        return subscription.pattern.fullmatch(topic) is not None
    return topic in subscription.topics or any(
        each.topic == topic for each in subscription.partitions
    )


class LagMonitor:
    """Measures lag in its own thread; unreachable brokers do not stop the pipeline."""

    def __init__(self, spec: PipelineSpec, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._clusters = clusters_of(spec)
        self._ends: Mapping[str, Offsets] = {}
        self.lags: Mapping[str, Lag] = {}
        """By sink. Replaced as a whole, so that any thread may read it."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag-monitor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LOOK_EVERY_S)

    def update(self, ends: Mapping[str, Offsets]) -> None:
        """Set the offsets that each sink has read up to."""
        self._ends = ends

    def _run(self) -> None:
        readers: dict[int, LagReader] = {}
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.lags = self._look(readers)
            except HeadwaterError as error:
                _log.info("Cannot read the lag: error=%s", error)
        for each in readers.values():
            each.close()

    def _look(self, readers: dict[int, LagReader]) -> dict[str, Lag]:
        found: dict[str, Lag] = {}
        for number, (client, subscriptions) in enumerate(self._clusters):
            mine = {
                name: {each: offset for each, offset in ends.items() if _any(subscriptions, each)}
                for name, ends in self._ends.items()
            }
            mine = {name: ends for name, ends in mine.items() if ends}
            if not mine:
                continue
            if number not in readers:
                readers[number] = LagReader({**_SMALL_LOOKS, **client})
            for name, lag in lag_of(mine, readers[number], now_ms=self._now_ms()).items():
                former = found.get(name, Lag(records=0, time_ms=0))
                found[name] = Lag(
                    records=former.records + lag.records,
                    time_ms=max(former.time_ms, lag.time_ms),
                )
        return found


Cluster = tuple[Mapping[str, str], list[SourceSubscription]]


def clusters_of(spec: PipelineSpec) -> list[Cluster]:
    """Return client settings of a pipeline's sources, with the topics read with them."""
    found: list[Cluster] = []
    for source in spec.sources:
        if source.is_topic and not source.is_table:
            options = source_options(source, spec)
            same = [each for client, each in found if client == options.client]
            if same:
                same[0].append(options.subscription)
            else:
                found.append((options.client, [options.subscription]))
    return found


def _any(subscriptions: Iterable[SourceSubscription], partition: TopicPartition) -> bool:
    return any(reads(each, partition.topic) for each in subscriptions)
