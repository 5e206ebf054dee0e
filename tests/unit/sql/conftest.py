"""A broker with topics in several formats, and sessions on it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headwater.sql
from headwater.client import Admin, NewTopic, Producer
from headwater.client.avro import AvroSerializer
from headwater.client.json_schema import JsonSerializer
from headwater.client.protobuf import ProtobufSerializer
from headwater.client.schema_registry import SchemaRegistry
from headwater.sql import SqlSession
from headwater.testing import EmbeddedBroker, EmbeddedRegistry

PARTITIONS = 4
ORDERS = 12_000
BASE_MS = 1_700_000_000_000
KINDS = ("green", "black", "white", "oolong")


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "kind": KINDS[number % len(KINDS)],
        "grams": number % 97,
        "price": number / 8 if number % 11 else None,
        "is_gift": number % 5 == 0,
        "note": "x" * (number % 50),
        "shop": {"city": f"city{number % 7}", "floor": number % 3},
        "tags": [f"t{each}" for each in range(number % 4)],
    }


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


@pytest.fixture(scope="session")
def registry(broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(broker.bootstrap_servers) as started:
        yield started


@pytest.fixture(scope="session")
def orders(broker: EmbeddedBroker) -> list[dict[str, Any]]:
    return produce_orders(broker, "orders", ORDERS)


def produce_orders(broker: EmbeddedBroker, topic: str, count: int) -> list[dict[str, Any]]:
    """Orders as JSON: a record per second, in small batches; returns the rows."""
    create(broker, topic)
    rows = [order(number) for number in range(count)]
    offsets = [0] * PARTITIONS
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for first in range(0, count, 400):
            part = rows[first : first + 400]
            table: Any = pa.table(
                {
                    "key": [f"k{row['id'] % 13}".encode() for row in part],
                    "value": [json.dumps(row).encode() for row in part],
                    "timestamp": [BASE_MS + 1_000 * row["id"] for row in part],
                    "partition": pa.array([row["id"] % PARTITIONS for row in part], pa.int32()),
                }
            )
            producer.send_table(topic, table).result(60)
    for row in rows:
        partition = row["id"] % PARTITIONS
        row |= {"_partition": partition, "_offset": offsets[partition]}
        row |= {"_timestamp": BASE_MS + 1_000 * row["id"], "_key": f"k{row['id'] % 13}"}
        offsets[partition] += 1
    return rows


def create(broker: EmbeddedBroker, name: str, partitions: int = PARTITIONS, **configs: str) -> None:
    given = {each.replace("_", "."): value for each, value in configs.items()}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=name, partitions=partitions, configs=given)])


def produce(broker: EmbeddedBroker, topic: str, *values: Any, value_serializer: Any = None) -> None:
    """Send values to partition 0."""
    settings: dict[str, object] = {"bootstrap.servers": broker.bootstrap_servers}
    if value_serializer is not None:
        settings["value.serializer"] = value_serializer
    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value=value, partition=0)


@pytest.fixture
def session(broker: EmbeddedBroker, orders: list[dict[str, Any]]) -> Iterator[SqlSession]:
    """A session on a broker with `orders`."""
    assert orders
    with headwater.sql.connect(broker.bootstrap_servers) as opened:
        yield opened


AVRO = {
    "type": "record",
    "name": "Tea",
    "fields": [
        {"name": "kind", "type": "string"},
        {"name": "grams", "type": ["null", "long"], "default": None},
        {"name": "picked", "type": {"type": "int", "logicalType": "date"}},
    ],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string"},
        "grams": {"type": ["integer", "null"]},
        "shop": {"$ref": "#/$defs/shop"},
    },
    "$defs": {"shop": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PROTOBUF = 'syntax = "proto3"; message Tea { string kind = 1; int64 grams = 2; }'

Registered = Callable[[SchemaRegistry, str], Callable[[Any], bytes]]
REGISTERED: dict[str, Registered] = {
    "avro": lambda registry, topic: AvroSerializer(registry, AVRO, topic=topic),
    "json-schema": lambda registry, topic: JsonSerializer(registry, JSON_SCHEMA, topic=topic),
    "protobuf": lambda registry, topic: ProtobufSerializer(registry, PROTOBUF, topic=topic),
}
