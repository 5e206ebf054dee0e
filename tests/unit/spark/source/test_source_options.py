"""The options of the source: what they mean, and how a wrong one is told."""

import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption
from headwater.spark.source.source_options import (
    OffsetsAt,
    RowType,
    SourceOptions,
    read_source_options,
)
from headwater.spark.source.topic_offsets import EARLIEST, LATEST

T0 = TopicPartition("t", 0)

AVRO = {"valueFormat": "avro", "schema.registry.url": "http://127.0.0.1:8081"}


def streaming(**more: str) -> SourceOptions:
    return _read(more, is_streaming=True)


def batch(**more: str) -> SourceOptions:
    return _read(more, is_streaming=False)


def _read(more: dict[str, str], *, is_streaming: bool) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"} | more
    kept = {name: value for name, value in given.items() if value}
    return read_source_options(kept, is_streaming=is_streaming)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert streaming().starting == OffsetsAt(offset=LATEST)
    assert batch().starting == OffsetsAt(offset=EARLIEST)
    assert batch().ending == OffsetsAt(offset=LATEST)


def test_names_are_taken_in_any_case_as_spark_gives_them() -> None:
    assert streaming(maxoffsetspertrigger="7", MINPARTITIONS="3") == streaming(
        maxOffsetsPerTrigger="7", minPartitions="3"
    )


def test_topics_are_listed_with_commas() -> None:
    assert streaming(subscribe=" a, b ,a,").subscription.topics == ("a", "b")


def test_single_partitions_can_be_assigned() -> None:
    options = streaming(subscribe="", assign='{"t":[0]}')
    assert options.subscription.partitions == (T0,)


def test_a_pattern_is_a_regular_expression() -> None:
    pattern = streaming(subscribe="", subscribePattern="or.*s").subscription.pattern
    assert pattern is not None
    assert pattern.fullmatch("orders")


def test_a_timestamp_for_all_wins_over_all_other_ways_to_begin() -> None:
    options = streaming(
        startingTimestamp="5",
        startingOffsetsByTimestamp='{"t":{"0":6}}',
        startingOffsets="earliest",
    )
    assert options.starting == OffsetsAt(timestamp_ms=5)
    assert streaming(
        startingOffsetsByTimestamp='{"t":{"0":6}}', startingOffsets="earliest"
    ).starting == OffsetsAt(timestamps_ms={T0: 6})


def test_client_settings_lose_their_prefix() -> None:
    client = _read({"kafka.isolation.level": "read_committed"}, is_streaming=True).client
    assert client == {"bootstrap.servers": "b:9092", "isolation.level": "read_committed"}


def test_a_delay_may_be_written_with_a_unit() -> None:
    assert streaming().max_delay_ms == 900_000
    assert streaming(maxTriggerDelay="90s").max_delay_ms == 90_000
    assert streaming(maxTriggerDelay="250").max_delay_ms == 250


def test_rows_may_be_whole_batches() -> None:
    assert streaming(rowtype="batch").row_type is RowType.BATCH


def test_sparks_own_options_are_none_of_our_business() -> None:
    assert streaming(checkpointLocation="/c", queryName="q") == streaming()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": ""}, "exactly one of subscribe"),
        ({"assign": '{"t":[0]}'}, "not subscribe, assign"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": "", "assign": "{}"}, "names no partition"),
        ({"subscribe": "", "subscribePattern": "("}, "not a regular expression"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "many"}, "must be a whole number, not many"),
        ({"maxOffsetsPerTrigger": "0"}, "must be at least 1"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is above"),
        ({"minPartitions": "0"}, "must be at least 1"),
        ({"failOnDataLoss": "maybe"}, "must be one of true, false"),
        ({"maxTriggerDelay": "soon"}, "a time such as"),
        ({"endingOffsets": "latest"}, "no meaning for a streaming query"),
        ({"endingTimestamp": "5"}, "no meaning for a streaming query"),
        ({"untilOffsets": '{"t":{"0":-1}}'}, "neither earliest nor latest"),
        ({"kafka.auto.offset.reset": "earliest"}, "set startingOffsets instead"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"kafka.key.deserializer": "x"}, "given as bytes"),
        ({"rowtype": "bytes"}, "must be one of record, batch"),
        ({"valueFormat": "avro"}, "valueFormat=avro needs schema.registry.url"),
        ({"schema.registry.url": "http://r"}, "no meaning without keyFormat or valueFormat avro"),
        ({**AVRO, "value.subject.name.strategy": "x"}, "must be one of TopicNameStrategy"),
        ({"mode": "DROPMALFORMED"}, "mode must be one of failfast, permissive"),
        ({"valueFormat": "json", "rowtype": "batch"}, "encoded batches"),
        ({"startingOffsets": "{"}, "must be JSON"),
    ],
)
def test_invalid_option_is_reported_in_one_line(more: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason) as told:
        streaming(**more)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"untilOffsets": '{"t":{"0":1}}'}, "ends at endingOffsets"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "cannot be earliest"),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "after its ending offset",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":9}}'},
            "the same partitions",
        ),
    ],
)
def test_a_batch_query_that_could_only_be_empty_is_refused(
    more: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidOption, match=reason):
        batch(**more)
