"""Protobuf in Spark queries, checked with the client's serializers."""

import datetime
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headwater.client import Consumer, Producer
from headwater.client.protobuf import ProtobufDeserializer, ProtobufSerializer
from headwater.client.schema_registry import SchemaReference, SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.spark.pipelines import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime.datetime(2026, 5, 4, 3, 2, 1, 123000, tzinfo=datetime.UTC)
LEAF = 'syntax = "proto3"; package leaves; message Leaf { int32 size = 1; }'
TEA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "leaf.proto";
message Shop { string name = 1; }
message Tea {
  int64 id = 1;
  Kind kind = 2;
  repeated leaves.Leaf leaves = 3;
  map<string, int32> stock = 4;
  google.protobuf.Timestamp at = 5;
  optional string note = 6;
}
enum Kind { GREEN = 0; BLACK = 1; }
"""


@pytest.fixture(scope="module")
def registry(spark_broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(spark_broker.bootstrap_servers) as found:
        yield found


@pytest.fixture
def topic(spark_broker: EmbeddedBroker) -> str:
    name = f"tea-{uuid.uuid4().hex[:8]}"
    make(spark_broker, name, partitions=1)
    return name


def tea(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "kind": "BLACK",
        "leaves": [{"size": 3}] * (number % 3),
        "stock": {"here": number},
        "at": "2026-05-04T03:02:01.123Z",
        **({} if number % 2 else {"note": "茶"}),
    }


def send(broker: EmbeddedBroker, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value).result(60)


def read(spark: "SparkSession", broker: EmbeddedBroker, topic: str, **options: str) -> "DataFrame":
    return (
        spark.read.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )


def test_protobuf_values_are_columns_and_are_written_again(
    spark: "SparkSession", spark_broker: EmbeddedBroker, registry: EmbeddedRegistry, topic: str
) -> None:
    access = {"valueFormat": "protobuf", "schema.registry.url": registry.url}
    with SchemaRegistry(registry.url) as client:
        client.register("leaf", LEAF, schema_type="PROTOBUF")
        reference = SchemaReference(name="leaf.proto", subject="leaf", version=1)
        serialize = ProtobufSerializer(
            client, TEA, message="shop.Tea", topic=topic, references=(reference,)
        )
        send(spark_broker, topic, [serialize(tea(number)) for number in range(4)])
        frame = read(spark, spark_broker, topic, valueMessage="shop.Tea", **access)
        assert frame.schema["value"].dataType.simpleString() == (
            "struct<id:bigint,kind:string,leaves:array<struct<size:int>>,stock:map<string,int>,"
            "at:timestamp,note:string>"
        )
        rows = [row.value.asDict(recursive=True) for row in frame.orderBy("offset").collect()]
        assert [row["id"] for row in rows] == [0, 1, 2, 3]
        assert [row["note"] for row in rows] == ["茶", None, "茶", None]
        assert rows[2]["leaves"] == [{"size": 3}, {"size": 3}]
        assert rows[3]["stock"] == {"here": 3}
        assert rows[0]["at"].astimezone(datetime.UTC) == AT

        target = f"{topic}-copy"
        make(spark_broker, target, partitions=1)
        (
            frame.select("value")
            .write.format("headwater")
            .option("kafka.bootstrap.servers", spark_broker.bootstrap_servers)
            .option("topic", target)
            .options(**access)
            .mode("append")
            .save()
        )
        found = values(spark_broker, target, 4)
        deserialize = ProtobufDeserializer(client, as_dict=True)
        assert sorted((deserialize(raw) for raw in found), key=lambda row: int(row["id"])) == [
            {**tea(number), "id": str(number)}
            if number % 3
            else {name: v for name, v in {**tea(number), "id": str(number)}.items() if v != []}
            for number in range(4)
        ]
        latest = client.version(f"{target}-value")
        assert latest.schema_type == "PROTOBUF"
        assert "google.protobuf.Timestamp at = 5;" in latest.schema
        assert "repeated Leaves leaves = 3;" in latest.schema


def values(broker: EmbeddedBroker, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"check-{uuid.uuid4().hex}",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([topic])
        for _ in range(60):
            found += [record.value for record in consumer.poll(5) if record.value is not None]
            if len(found) >= count:
                break
    return found


def test_bad_records_stop_the_query_or_are_null(
    spark: "SparkSession", spark_broker: EmbeddedBroker, registry: EmbeddedRegistry, topic: str
) -> None:
    with SchemaRegistry(registry.url) as client:
        serialize = ProtobufSerializer(client, LEAF, topic=topic)
        send(spark_broker, topic, [serialize({"size": 1}), b"no protobuf"])
    access = {"valueFormat": "protobuf", "schema.registry.url": registry.url}
    lenient = read(spark, spark_broker, topic, mode="PERMISSIVE", **access)
    assert [row.value for row in lenient.orderBy("offset").collect()] == [(1,), None]
    with pytest.raises(Exception, match="at offset 1 cannot be read as Protobuf"):
        read(spark, spark_broker, topic, **access).collect()
