"""The options of the sink: what they mean, and how a wrong one is told."""

import pytest

from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.value_formats import ValueFormat
from headwater.spark.sink.exactly_once import BatchIdentity, identity_of
from headwater.spark.sink.sink_options import Delivery, SinkOptions, read_sink_options

QUERY = "0b1f6c1e-5a55-4a0e-8f3b-0d6c7a1b2c3d"

AVRO = {"valueFormat": "avro", "schema.registry.url": "http://127.0.0.1:8081"}


def read(**more: str) -> SinkOptions:
    return read_sink_options({"kafka.bootstrap.servers": "b:9092"} | more, is_streaming=True)


def read_batch(**more: str) -> SinkOptions:
    return read_sink_options({"kafka.bootstrap.servers": "b:9092"} | more, is_streaming=False)


def test_rows_are_delivered_at_least_once_unless_more_is_asked_for() -> None:
    assert read().delivery is Delivery.AT_LEAST_ONCE
    assert read(delivery="exactly-once", topic="t").delivery is Delivery.EXACTLY_ONCE


def test_client_settings_lose_their_prefix() -> None:
    given = {"kafka.bootstrap.servers": "b:9092", "kafka.linger.ms": "5", "topic": " t "}
    options = read_sink_options(given, is_streaming=True)
    assert options.client == {"bootstrap.servers": "b:9092", "linger.ms": "5"}
    assert options.topic == "t"


def test_finished_batches_are_noted_on_the_topic_unless_rows_name_their_own() -> None:
    assert read(topic="t").marker_topic == "t"
    assert read(delivery="exactly-once", markerTopic="m").marker_topic == "m"


def test_a_batch_write_may_say_which_batch_it_is() -> None:
    options = read_batch(delivery="exactly-once", topic="t", queryId=QUERY, batchId="7")
    assert (options.query_id, options.batch_id) == (QUERY, 7)


def test_a_batch_write_may_leave_the_query_to_spark() -> None:
    options = read_batch(delivery="exactly-once", topic="t", queryId="spark", batchId="7")
    told = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": "8"}
    identity = identity_of(options, 3, told.get)
    assert identity == BatchIdentity(query_id=QUERY, batch_id=7, partition=3)
    with pytest.raises(InvalidOption, match="did not provide the query id"):
        identity_of(options, 3, lambda _: None)


def test_keys_and_values_may_have_a_format() -> None:
    assert read(valueFormat="JSON", keyFormat="bytes").formats == {"value": ValueFormat.JSON}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"delivery": "maybe-once"}, "one of at-least-once, exactly-once"),
        ({"topics": "t"}, "did you mean topic"),
        ({"topic": " "}, "topic is empty"),
        ({"kafka.value.serializer": "x"}, "cast them to string or binary"),
        ({"kafka.transactional.id": "x"}, "transactionalIdPrefix"),
        ({"delivery": "exactly-once", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"delivery": "exactly-once", "kafka.enable.idempotence": "false"}, "idempotence"),
        ({"delivery": "exactly-once"}, "needs topic, or markerTopic"),
        ({"queryId": "mine"}, "must be a UUID, or spark"),
        ({"valueFormat": "avro"}, "valueFormat=avro needs schema.registry.url"),
        ({"schema.registry.url": "http://r"}, "no meaning without keyFormat or valueFormat avro"),
        ({**AVRO, "value.subject.name.strategy": "x"}, "must be one of TopicNameStrategy"),
        ({**AVRO, "valueSchema": '"int"', "use.latest.version": "true"}, "exclude each other"),
        ({**AVRO, "valueSchemaId": "7"}, "the id of valueSchema, which is missing"),
        ({"keyFormat": "xml"}, "keyFormat must be one of bytes, json"),
        ({"batchId": "-1"}, "at least 0"),
    ],
)
def test_invalid_option_is_reported_in_one_line(more: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        read(**more)


def test_exactly_once_batch_write_without_identity_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="queryId and batchId"):
        read_batch(delivery="exactly-once", topic="t", batchId="7")
