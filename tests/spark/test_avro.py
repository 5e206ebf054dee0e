"""Avro in Spark queries, checked with Confluent's serializers."""

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client import Producer
from headwater.connect.import_export import AvroValues, Running, export_rows, import_rows
from headwater.spark import from_avro
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.spark.pipelines import make, read, run_once
from tests.spark.queries import run_to_its_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


@pytest.mark.spark
def test_two_schema_versions_of_confluents_serializer_are_read_as_the_latest(
    spark: "SparkSession", spark_broker: EmbeddedBroker, registry: EmbeddedRegistry, topic: str
) -> None:
    first = confluents(registry, topic, FIRST, [tea(1), tea(2)])
    second = confluents(registry, topic, SECOND, [{**tea(3), "grams": 50}])
    send(spark_broker, topic, [*first, None, *second])
    options = {
        "kafka.bootstrap.servers": spark_broker.bootstrap_servers,
        "subscribe": topic,
    }
    avro = {"valueFormat": "avro", "schema.registry.url": registry.url}
    records = spark.read.format("headwater").options(**options)
    raw = records.load()
    typed = records.options(**avro).load()
    some = records.options(**avro).schema("value struct<id: bigint, at: timestamp>").load()
    column = from_avro("value", registry=registry.url, subject=f"{topic}-value").alias("value")
    expected: list[Any] = [in_spark(tea(1), 100), in_spark(tea(2), 100), None, in_spark(tea(3), 50)]
    assert values_of(typed.orderBy("offset")) == expected
    assert values_of(raw.orderBy("offset").select(column)) == expected
    assert sorted(each["id"] for each in values_of(some) if each) == [1, 2, 3]
    assert some.schema["value"].dataType.simpleString() == "struct<id:bigint,at:timestamp>"


def values_of(frame: "DataFrame") -> list[Any]:
    rows = [row.value for row in frame.select("value").collect()]
    return [None if each is None else each.asDict(recursive=True) for each in rows]


def in_spark(value: dict[str, Any], grams: int) -> dict[str, Any]:
    """A union of more than null and one other type is a struct in Spark; times have no zone."""
    note = None if value["note"] is None else {"member0": value["note"], "member1": None}
    return {**value, "note": note, "at": AT.replace(tzinfo=None), "grams": grams}


def test_confluents_deserializer_reads_what_spark_writes(
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


def test_pipeline_from_avro_to_avro_sends_undecodable_records_to_dead_letters(
    spark: "SparkSession",
    spark_broker: EmbeddedBroker,
    registry: EmbeddedRegistry,
    topic: str,
    tmp_path: Path,
) -> None:
    out, dead = f"{topic}-out", f"{topic}-dead"
    make(spark_broker, out, dead, partitions=1)
    first = confluents(registry, topic, FIRST, [tea(1), tea(2)])
    second = confluents(registry, topic, SECOND, [{**tea(3), "grams": 50}])
    unknown = b"\0\x00\x0f\xff\xff" + first[0][5:]
    send(spark_broker, topic, [first[0], b"no Avro", first[1][:-1], None, unknown, *second])
    file = tmp_path / "light.yaml"
    file.write_text(
        f"""
        version: 1
        name: light
        registry: {registry.url}
        sources:
          teas:
            subscribe: {topic}
            startingOffsets: earliest
            decode: {{key: string, value: avro}}
        steps:
          light:
            sql: select key nth, id, price, grams, maker from teas where grams < 200
        sinks:
          - from: light
            topic: {out}
            key: nth
            encode: {{value: avro}}
        on_error:
          dead_letter: {dead}
        """
    )
    lives = run_once(spark, spark_broker, file, tmp_path / "checkpoint")
    assert [each.error for each in lives] == [None, None]
    with SchemaRegistryClient({"url": registry.url}) as client:
        where = SerializationContext(out, MessageField.VALUE)
        found = [AvroDeserializer(client)(each.value, where) for each in read(spark_broker, out)]
    price = Decimal("-12.50")
    assert found == [
        {"nth": "0", "id": 1, "price": price, "grams": 100, "maker": None},
        {"nth": "5", "id": 3, "price": price, "grams": 50, "maker": None},
    ]
    letters = read(spark_broker, dead)
    reasons = [dict(each.headers)["__headwater.errors.message"] for each in letters]
    assert [each.value for each in letters] == [b"no Avro", first[1][:-1], unknown]
    assert reasons[0] == b"value: it does not begin with 0 and the id of a schema"
    assert reasons[1] is not None
    assert reasons[1].startswith(b"value: maker.name: the record ends too early")
    assert reasons[2] == b"value: the registry has no schema 1048575"


@pytest.mark.spark
def test_files_are_imported_as_avro_and_exported_again(
    spark: "SparkSession",
    spark_broker: EmbeddedBroker,
    registry: EmbeddedRegistry,
    topic: str,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "one.json").write_text('{"id": 1, "name": "Ito"}\n{"id": 2, "name": null}\n')
    avro = AvroValues(registry=registry.url)
    run_to_its_end(
        lambda: import_rows(
            spark,
            "files",
            {"path": str(folder), "format": "json"},
            bootstrap_servers=spark_broker.bootstrap_servers,
            topic=topic,
            key="id",
            running=Running(checkpoint=str(tmp_path / "a")),
            avro=avro,
        )
    )
    with SchemaRegistryClient({"url": registry.url}) as client:
        where = SerializationContext(topic, MessageField.VALUE)
        found = [AvroDeserializer(client)(each.value, where) for each in read(spark_broker, topic)]
    assert found == [{"id": 1, "name": "Ito"}, {"id": 2, "name": None}]
    run_to_its_end(
        lambda: export_rows(
            spark,
            "files",
            {"path": str(tmp_path / "out"), "format": "json"},
            bootstrap_servers=spark_broker.bootstrap_servers,
            topic=topic,
            running=Running(checkpoint=str(tmp_path / "b")),
            avro=avro,
        )
    )
    written = "".join(each.read_text() for each in (tmp_path / "out").glob("*.json"))
    assert sorted(json.loads(line)["id"] for line in written.splitlines()) == [1, 2]
