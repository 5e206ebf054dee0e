"""Avro in Spark's queries, with Confluent's own serializers as the judges of every byte."""

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client import Producer
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.spark.pipelines import make, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = datetime.UTC
AT = datetime.datetime(2026, 5, 4, 3, 2, 1, 123000, tzinfo=UTC)

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["GREEN", "BLACK"]}},
    {
        "name": "price",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    },
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "stock", "type": {"type": "map", "values": "int"}},
    {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
    {"name": "note", "type": ["null", "string", "long"], "default": None},
    {
        "name": "maker",
        "type": [
            "null",
            {"type": "record", "name": "Maker", "fields": [{"name": "name", "type": "string"}]},
        ],
        "default": None,
    },
]
FIRST = json.dumps({"type": "record", "name": "Tea", "namespace": "shop", "fields": FIELDS})
ADDED = {"name": "grams", "type": "int", "default": 100}
SECOND = json.dumps(
    {"type": "record", "name": "Tea", "namespace": "shop", "fields": [*FIELDS, ADDED]}
)


def tea(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "kind": "GREEN",
        "price": Decimal("-12.50"),
        "at": AT,
        "day": datetime.date(2026, 5, 4),
        "tags": ["a", "b"][: number % 3],
        "stock": {"here": number},
        "mark": b"\x00\xff",
        "note": None if number % 2 else "茶",
        "maker": None if number % 2 else {"name": "Ito"},
    }


@pytest.fixture(scope="module")
def registry(spark_broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(spark_broker.bootstrap_servers) as found:
        yield found


@pytest.fixture
def topic(spark_broker: EmbeddedBroker) -> str:
    name = f"tea-{uuid.uuid4().hex[:8]}"
    make(spark_broker, name, partitions=1)
    return name


def send(broker: EmbeddedBroker, topic: str, values: list[bytes | None]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key=str(number).encode()).result(60)


def confluents(
    registry: EmbeddedRegistry, topic: str, schema: str, values: list[Any]
) -> list[bytes]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        write = AvroSerializer(client, schema)
        where = SerializationContext(topic, MessageField.VALUE)
        return [write(value, where) for value in values]


def test_what_confluents_serializer_writes_in_two_versions_is_read_as_the_latest(
    spark: "SparkSession", spark_broker: EmbeddedBroker, registry: EmbeddedRegistry, topic: str
) -> None:
    first = confluents(registry, topic, FIRST, [tea(1), tea(2)])
    second = confluents(registry, topic, SECOND, [{**tea(3), "grams": 50}])
    send(spark_broker, topic, [*first, None, *second])
    frame = (
        spark.read.format("headwater")
        .option("kafka.bootstrap.servers", spark_broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("valueFormat", "avro")
        .option("schema.registry.url", registry.url)
        .load()
    )
    rows = frame.orderBy("offset").select("value").collect()
    found = [None if row.value is None else row.value.asDict(recursive=True) for row in rows]
    expected: list[Any] = [in_spark(tea(1), 100), in_spark(tea(2), 100), None, in_spark(tea(3), 50)]
    assert found == expected


def in_spark(value: dict[str, Any], grams: int) -> dict[str, Any]:
    """A union of more than null and one other is a struct in Spark, and times have no zone."""
    note = None if value["note"] is None else {"member0": value["note"], "member1": None}
    return {**value, "note": note, "at": AT.replace(tzinfo=None), "grams": grams}


def test_what_spark_writes_is_read_by_confluents_deserializer(
    spark: "SparkSession", spark_broker: EmbeddedBroker, registry: EmbeddedRegistry, topic: str
) -> None:
    frame = spark.sql(
        "select named_struct('id', 7L) key, named_struct('id', 7L, 'price', 1.25BD, "
        "'tags', array('a', null), 'at', timestamp'2026-05-04T03:02:01Z', "
        "'maker', named_struct('name', 'Ito')) value"
    )
    (
        frame.write.format("headwater")
        .mode("append")
        .option("kafka.bootstrap.servers", spark_broker.bootstrap_servers)
        .option("topic", topic)
        .option("keyFormat", "avro")
        .option("valueFormat", "avro")
        .option("schema.registry.url", registry.url)
        .save()
    )
    [record] = read(spark_broker, topic)
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserialize = AvroDeserializer(client)
        found = [
            deserialize(raw, SerializationContext(topic, part))
            for raw, part in ((record.key, MessageField.KEY), (record.value, MessageField.VALUE))
        ]
        assert client.get_latest_version(f"{topic}-key").schema_id != (
            client.get_latest_version(f"{topic}-value").schema_id
        )
    assert found == [
        {"id": 7},
        {
            "id": 7,
            "price": Decimal("1.25"),
            "tags": ["a", None],
            "at": datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
            "maker": {"name": "Ito"},
        },
    ]
