"""What is wrong with a query is told in one line, before data moves. No Spark is started here."""

from collections.abc import Iterator

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from headwater.client import Admin, NewTopic
from headwater.client.errors import KafkaTimeout
from headwater.common.exceptions import HeadwaterError
from headwater.spark.data_source import HeadwaterSource
from headwater.spark.exceptions import InvalidOption, WrongColumns
from headwater.testing import EmbeddedBroker

NOWHERE = "127.0.0.1:1"


def columns(**kinds: DataType) -> StructType:
    schema = StructType()
    for name, kind in kinds.items():
        schema = schema.add(name, kind)
    return schema


ROW = columns(value=StringType())
TYPED = columns(value=columns(id=LongType()))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One that creates no topic unless it is told to."""
    with EmbeddedBroker({"auto.create.topics.enable": False}) as started:
        yield started


def source(**options: str) -> HeadwaterSource:
    """As Spark makes it, with names in lower case."""
    given = {"kafka.bootstrap.servers": NOWHERE} | options
    return HeadwaterSource({name.lower(): value for name, value in given.items()})


@pytest.mark.parametrize(
    ("options", "schema", "kind", "reason"),
    [
        ({"subscripe": "t"}, ROW, InvalidOption, "no option subscripe; did you mean subscribe"),
        ({}, ROW, InvalidOption, "exactly one of subscribe"),
        ({"subscribe": "t"}, TYPED, WrongColumns, "with valueFormat=json it may be"),
        (
            {"subscribe": "t", "valueFormat": "json"},
            columns(value=columns(tags=MapType(StringType(), IntegerType()))),
            WrongColumns,
            "value.tags cannot be map<string,int> in JSON",
        ),
        (
            {"subscribe": "t", "valueFormat": "json"},
            columns(value=StructType().add("id", LongType(), nullable=False)),
            WrongColumns,
            "value.id cannot be NOT NULL",
        ),
        ({"subscribe": "t"}, columns(price=IntegerType()), WrongColumns, "has no price"),
        ({"subscribe": "t"}, columns(offset=IntegerType()), WrongColumns, "bigint, not int"),
    ],
)
def test_a_source_that_cannot_be_is_refused_before_a_broker_is_asked(
    options: dict[str, str], schema: StructType, kind: type[HeadwaterError], reason: str
) -> None:
    for make in (source(**options).reader, source(**options).streamReader):
        with pytest.raises(kind, match=reason) as refused:
            make(schema)
        assert "\n" not in str(refused.value)


def test_a_format_without_a_schema_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"valueFormat=json needs a schema, such as .*struct"):
        source(subscribe="t", valueFormat="json").schema()


@pytest.mark.parametrize(
    ("options", "schema", "kind", "reason"),
    [
        ({"topik": "t"}, ROW, InvalidOption, "no option topik; did you mean topic"),
        ({}, ROW, WrongColumns, "the topic is missing"),
        ({"topic": "t"}, columns(id=IntegerType()), WrongColumns, "no column value among id"),
        ({"topic": "t"}, TYPED, WrongColumns, "with valueFormat=json it may be"),
        (
            {"topic": "t", "valueFormat": "json"},
            columns(value=BinaryType()),
            WrongColumns,
            "value cannot be binary in JSON",
        ),
    ],
)
def test_a_sink_that_cannot_be_is_refused_before_a_broker_is_asked(
    options: dict[str, str], schema: StructType, kind: type[HeadwaterError], reason: str
) -> None:
    for make in (source(**options).writer, source(**options).streamWriter):
        with pytest.raises(kind, match=reason):
            make(schema, False)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(InvalidOption, match="use mode append"):
        source(topic="t").writer(ROW, True)


def test_brokers_that_cannot_be_reached_are_named() -> None:
    asked = {"subscribe": "t", "kafka.default.api.timeout.ms": "2000"}
    with pytest.raises(KafkaTimeout, match=f"{NOWHERE}: cannot connect"):
        source(**asked).reader(ROW).partitions()
    with pytest.raises(KafkaTimeout, match=f"{NOWHERE}: cannot connect"):
        source(**asked).streamReader(ROW).initialOffset()


def test_reading_a_missing_topic_fails_with_its_name(broker: EmbeddedBroker) -> None:
    there = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "tee"}
    with pytest.raises(InvalidOption, match="there is no topic tee"):
        source(**there).reader(ROW).partitions()
    stream = source(**there).streamReader(ROW)
    with pytest.raises(InvalidOption, match="there is no topic tee"):
        stream.initialOffset()
    stream.stop()


def test_writing_to_a_missing_topic_fails_if_brokers_do_not_create_topics(
    broker: EmbeddedBroker,
) -> None:
    there = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "tea"}
    with pytest.raises(InvalidOption, match=r"no topic tea, and .*headwater topics create tea"):
        source(**there).streamWriter(ROW, False)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="tea", partitions=1)])
    source(**there).streamWriter(ROW, False)
    with pytest.raises(InvalidOption, match="no topic notes"):
        source(**there, markerTopic="notes").writer(ROW, False)


def test_a_missing_topic_is_no_mistake_where_brokers_create_topics() -> None:
    with EmbeddedBroker() as started:
        there = {"kafka.bootstrap.servers": started.bootstrap_servers, "topic": "tea"}
        source(**there).streamWriter(ROW, False)
