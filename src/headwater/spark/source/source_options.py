"""Read and check the options of the source, without connecting to brokers.

Names and meanings are those of Spark's Kafka connector, except `maxBytesPerTrigger`, `rowtype` and
the formats. If several options set the start, the first in the connector's order has precedence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headwater.client.client_settings_filter import consumer_settings
from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import SOURCE_NAMES as AVRO
from headwater.spark.formats.avro.avro_options import AvroOptions, read_avro
from headwater.spark.formats.value_formats import NAMES as FORMATS
from headwater.spark.formats.value_formats import ValueFormat, read_formats
from headwater.spark.options import SparkOptions
from headwater.spark.source.topic_offsets import EARLIEST, LATEST, parse_offsets, parse_partitions

# Accepted for compatibility: the client retries by itself, requests partitions with every batch,
# and reads without a group.
_WITHOUT_EFFECT: Final = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "groupIdPrefix",
)
# In their documented spelling.
_NAMES: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "untilOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "rowtype",
    "atPresent",
    *FORMATS,
    *AVRO,
    "mode",
    *_WITHOUT_EFFECT,
)
_NOT_TO_BE_SET: Final = {
    "auto.offset.reset": "set startingOffsets instead",
    "key.deserializer": "keys are given as bytes; decode them with DataFrame operations",
    "value.deserializer": "values are given as bytes; decode them with DataFrame operations",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint",
    "interceptor.classes": "interceptors may change what is read",
}


class RowType(Enum):
    RECORD = "record"
    # A whole record batch as stored in the log, without decoding.
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSubscription:
    """Topics or partitions of a source. Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    pattern: re.Pattern[str] | None = None

    @property
    def only_topic(self) -> str | None:
        """Return the topic if there is only one."""
        names = {*self.topics, *(each.topic for each in self.partitions)}
        return names.pop() if len(names) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAt:
    """Start or end of a query, as the user set it."""

    # One number for all partitions or one for each: an offset, `EARLIEST` or `LATEST`.
    offset: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    # The same for timestamps.
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of the source."""

    # Hidden in logs, because they may contain credentials.
    client: Mapping[str, str] = field(repr=False)
    subscription: SourceSubscription
    starting: OffsetsAt
    ending: OffsetsAt
    # Where a stream ends, exclusive; a stream without it has no end.
    until: Mapping[TopicPartition, int] | None = None
    latest_if_no_match: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 900_000
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    row_type: RowType = RowType.RECORD
    # Whether a task requests the end of its partition each time it runs.
    at_present: bool = False
    formats: Mapping[str, ValueFormat] = field(default_factory=dict)
    # Of columns with Avro or Protobuf.
    avro: Mapping[str, AvroOptions] = field(default_factory=dict)
    # Whether an unreadable value becomes null; otherwise it fails the query.
    is_lenient: bool = False


def read_source_options(given: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Read the options. Raises `InvalidOption` with the reason in one line."""
    options = SparkOptions(given, "source", _NAMES)
    starting = _place(options, "starting", LATEST if is_streaming else EARLIEST)
    ending = _place(options, "ending", LATEST)
    formats = read_formats(options)
    if is_streaming:
        _refuse_ending(options)
    else:
        _refuse_batch_places(starting, ending)
    read = SourceOptions(
        client=options.client(_NOT_TO_BE_SET, consumer_settings(options.shared)),
        subscription=_subscription(options),
        starting=starting,
        ending=ending,
        until=_until(options, is_streaming=is_streaming),
        latest_if_no_match=options.choice(
            "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, "error"
        ),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        poll_timeout_ms=_default(options.number("kafkaConsumer.pollTimeoutMs", 0), 120_000),
        max_offsets=options.number("maxOffsetsPerTrigger", 1),
        min_offsets=options.number("minOffsetsPerTrigger", 1),
        max_delay_ms=options.duration_ms("maxTriggerDelay", "15m"),
        max_bytes=options.number("maxBytesPerTrigger", 1),
        min_partitions=options.number("minPartitions", 1),
        max_records_per_partition=options.number("maxRecordsPerPartition", 1),
        include_headers=options.flag("includeHeaders", default=False),
        at_present=options.flag("atPresent", default=False),
        row_type=options.choice("rowtype", {each.value: each for each in RowType}, "record"),
        formats=formats,
        avro=read_avro(options, formats, AVRO),
        is_lenient=options.choice("mode", {"failfast": False, "permissive": True}, "failfast"),
    )
    _refuse_contradictions(read)
    return read


def read_registry_source(
    given: Mapping[str, str],
) -> tuple[dict[str, AvroOptions], Mapping[str, ValueFormat], SourceSubscription]:
    """Read the options that determine the columns, for streams and batch queries."""
    options = SparkOptions(given, "source", _NAMES)
    formats = read_formats(options)
    return read_avro(options, formats, AVRO), formats, _subscription(options)


def _subscription(options: SparkOptions) -> SourceSubscription:
    ways = ("subscribe", "subscribePattern", "assign")
    chosen = [name for name in ways if options.get(name) is not None]
    if len(chosen) != 1:
        found = ", ".join(chosen) or "none"
        raise InvalidOption(f"exactly one of {', '.join(ways)} must be given, not {found}")
    text = options.get(chosen[0])
    assert text is not None
    if chosen == ["assign"]:
        partitions = parse_partitions("assign", text)
        if not partitions:
            raise InvalidOption("assign names no partition")
        return SourceSubscription(partitions=tuple(partitions))
    if chosen == ["subscribePattern"]:
        return SourceSubscription(pattern=_pattern(text))
    topics = [name.strip() for name in text.split(",") if name.strip()]
    if not topics:
        raise InvalidOption("subscribe names no topic")
    return SourceSubscription(topics=tuple(dict.fromkeys(topics)))


def _place(options: SparkOptions, side: str, default: int) -> OffsetsAt:
    """Read a start or end: a single timestamp, timestamps, or else offsets."""
    timestamp = options.number(f"{side}Timestamp", 0)
    if timestamp is not None:
        return OffsetsAt(timestamp_ms=timestamp)
    name = f"{side}OffsetsByTimestamp"
    text = options.get(name)
    if text is not None:
        return OffsetsAt(timestamps_ms=parse_offsets(name, text))
    name = f"{side}Offsets"
    text = options.get(name)
    if text is None:
        return OffsetsAt(offset=default)
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return OffsetsAt(offset=words[text.lower()])
    return OffsetsAt(offsets=parse_offsets(name, text))


def _until(options: SparkOptions, *, is_streaming: bool) -> dict[TopicPartition, int] | None:
    text = options.get("untilOffsets")
    if text is None:
        return None
    if not is_streaming:
        raise InvalidOption("untilOffsets is for streams; a batch query ends at endingOffsets")
    offsets = parse_offsets("untilOffsets", text)
    if any(offset < 0 for offset in offsets.values()):
        raise InvalidOption("untilOffsets must be offsets, neither earliest nor latest")
    return offsets


def _refuse_ending(options: SparkOptions) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if options.get(name) is not None:
            raise InvalidOption(f"{name} has no meaning for a streaming query, which has no end")


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise InvalidOption("subscribePattern is empty")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOption(f"subscribePattern is not a regular expression: {error}") from None


def _default(value: int | None, default: int) -> int:
    return default if value is None else value


def _refuse_batch_places(starting: OffsetsAt, ending: OffsetsAt) -> None:
    if _has(starting, LATEST):
        raise InvalidOption("startingOffsets cannot be latest for a batch query: it would be empty")
    if _has(ending, EARLIEST):
        raise InvalidOption("endingOffsets cannot be earliest for a batch query: it would be empty")
    for of_start, of_end, what in (
        (starting.offsets, ending.offsets, "offset"),
        (starting.timestamps_ms, ending.timestamps_ms, "timestamp"),
    ):
        if of_start and of_end:
            _refuse_crossed(of_start, of_end, what)


def _has(place: OffsetsAt, offset: int) -> bool:
    return place.offset == offset or offset in place.offsets.values()


def _refuse_crossed(
    starting: Mapping[TopicPartition, int], ending: Mapping[TopicPartition, int], what: str
) -> None:
    if starting.keys() != ending.keys():
        raise InvalidOption(f"the starting and ending {what}s must name the same partitions")
    for each, start in starting.items():
        if 0 <= ending[each] < start:
            raise InvalidOption(f"the starting {what} of {each} is after its ending {what}")


def _refuse_contradictions(options: SourceOptions) -> None:
    low, high = options.min_offsets, options.max_offsets
    if low is not None and high is not None and low > high:
        raise InvalidOption(f"minOffsetsPerTrigger ({low}) is above maxOffsetsPerTrigger ({high})")
    if options.formats and options.row_type is RowType.BATCH:
        raise InvalidOption("rowtype=batch returns encoded batches, for which formats do not apply")
