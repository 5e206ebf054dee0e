"""Confluent's Protobuf serializers test our registry and serializers, both ways."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headwater.client.errors import SerializationFailed
from headwater.client.protobuf import (
    ProtobufDeserializer,
    ProtobufSerializer,
    record_subject,
    to_dict,
)
from headwater.client.schema_registry import (
    SchemaIncompatible,
    SchemaInvalid,
    SchemaReference,
    SchemaRegistry,
)
from headwater.schemas.protobuf.descriptors import file_descriptor, file_descriptors
from headwater.schemas.protobuf.resolution import MAIN
from headwater.schemas.protobuf.schema_reader import read_schema
from headwater.testing import EmbeddedRegistry

pytestmark = pytest.mark.xdist_group("schema-registry")

LEAF = """
syntax = "proto3";
package shop.leaves;
message Leaf { int32 size = 1; Shape shape = 2; }
enum Shape { ROUND = 0; LONG = 1; }
"""
TEA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "LEAF_FILE";
message Shop { string name = 1; message Address { string city = 1; } }
message Tea {
  string kind = 1;
  repeated leaves.Leaf leaves = 2;
  map<string, double> prices = 3;
  oneof origin { string country = 4; Garden garden = 5; }
  optional int32 grams = 6;
  google.protobuf.Timestamp picked = 7;
  message Garden { int64 id = 1; }
}
"""
VALUE = {
    "kind": "grün",
    "leaves": [{"size": 3, "shape": "LONG"}, {}],
    "prices": {"EUR": 1.5, "JPY": 240.0},
    "garden": {"id": "7"},
    "grams": 0,
    "picked": "2026-01-02T03:04:05Z",
}


class Classes:
    """Classes as protoc generates them, under file names that no other test has."""

    def __init__(self) -> None:
        self.leaf_file = f"leaf-{uuid.uuid4().hex[:8]}.proto"
        self.text = TEA.replace("LEAF_FILE", self.leaf_file)
        schema = read_schema(self.text, [(self.leaf_file, LEAF)])
        self._pool = descriptor_pool.DescriptorPool()
        for each in file_descriptors(schema, f"tea-{uuid.uuid4().hex[:8]}.proto"):
            self._pool.AddSerializedFile(each.SerializeToString())

    def named(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


@pytest.fixture(scope="module")
def registry_process(shared_broker: Any) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(shared_broker.bootstrap_servers) as registry:
        yield registry


@pytest.fixture
def theirs(registry_process: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_process.url}) as client:
        yield client


@pytest.fixture
def ours(registry_process: EmbeddedRegistry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry_process.url) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"tea-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def classes() -> Classes:
    return Classes()


def their_serializer(client: SchemaRegistryClient, kind: Any) -> Any:
    return ConfluentSerializer(kind, client, {"use.deprecated.format": False})


def their_deserializer(client: SchemaRegistryClient, kind: Any) -> Any:
    return ConfluentDeserializer(kind, {"use.deprecated.format": False}, client)


def within(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("name", ["shop.Shop", "shop.Tea", "shop.Shop.Address", "shop.Tea.Garden"])
def test_both_sides_write_the_same_bytes(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str, classes: Classes, name: str
) -> None:
    kind = classes.named(name)
    message = kind()
    if name == "shop.Tea":
        message.kind = "green"
        message.garden.id = 7
    expected = their_serializer(theirs, kind)(message, within(topic))
    assert ProtobufSerializer(ours, kind, topic=topic)(message) == expected
    assert ProtobufDeserializer(ours, kind)(expected) == message
    assert to_dict(ProtobufDeserializer(ours)(expected)) == to_dict(message)
    assert their_deserializer(theirs, kind)(expected, within(topic)) == message


def test_our_bytes_are_read_by_theirs(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str, classes: Classes
) -> None:
    kind = classes.named("shop.Tea")
    leaf = ours.register(classes.leaf_file, LEAF, schema_type="PROTOBUF")
    reference = SchemaReference(name=classes.leaf_file, subject=classes.leaf_file, version=1)
    serialize = ProtobufSerializer(
        ours, classes.text, message="shop.Tea", topic=topic, references=(reference,)
    )
    raw = serialize(VALUE)
    assert int.from_bytes(raw[1:5], "big") > leaf
    read = their_deserializer(theirs, kind)(raw, within(topic))
    assert to_dict(read) == VALUE
    assert ProtobufDeserializer(ours, as_dict=True)(raw) == VALUE


def test_imports_are_registered_as_references(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str, classes: Classes
) -> None:
    kind = classes.named("shop.Tea")
    ProtobufSerializer(ours, kind, topic=topic)({"kind": "green"})
    latest = theirs.get_latest_version(f"{topic}-value")
    assert latest.schema.schema_type == "PROTOBUF"
    (reference,) = latest.schema.references or []
    assert (reference.name, reference.subject, reference.version) == (
        classes.leaf_file,
        classes.leaf_file,
        1,
    )
    # Confluent's serializer finds the same schema, and registers nothing.
    their_serializer(theirs, kind)(kind(kind="black"), within(topic))
    assert theirs.get_versions(f"{topic}-value") == [1]


def test_serialized_format_is_a_descriptor(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str
) -> None:
    schema_id = ours.register(f"{topic}-value", LEAF, schema_type="PROTOBUF")
    schema = theirs.get_schema(schema_id, fmt="serialized").schema_str
    assert schema is not None
    found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema))
    assert found == file_descriptor(read_schema(LEAF), MAIN, "default")
    version = theirs.get_version(f"{topic}-value", 1, fmt="serialized")
    assert version.schema.schema_str == schema
    assert ours.schema(schema_id).schema.startswith('syntax = "proto3";\npackage shop.leaves;\n')


def test_incompatible_protobuf_is_rejected(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str
) -> None:
    subject = f"{topic}-value"
    ours.register(subject, LEAF, schema_type="PROTOBUF")
    other = LEAF.replace("int32 size", "string size")
    with pytest.raises(SchemaIncompatible, match="FIELD_SCALAR_KIND_CHANGED"):
        ours.register(subject, other, schema_type="PROTOBUF")
    assert not theirs.test_compatibility(subject, Schema(other, "PROTOBUF"))
    assert theirs.test_compatibility(subject, Schema(LEAF.replace("int32", "int64"), "PROTOBUF"))
    (first, *_) = ours.incompatibilities(subject, other, schema_type="PROTOBUF")
    assert "'#/Leaf/1'" in first
    with pytest.raises(SchemaRegistryError, match="different schema type"):
        theirs.register_schema(subject, Schema('"string"', "AVRO"))


def test_invalid_protobuf_is_rejected_with_its_place(ours: SchemaRegistry, topic: str) -> None:
    with pytest.raises(SchemaInvalid, match=r"Syntax error in :2:11: expected '{', found '5'"):
        ours.register(topic, 'syntax = "proto3";\nmessage A 5', schema_type="PROTOBUF")


def test_subject_may_be_named_after_the_message(ours: SchemaRegistry) -> None:
    package = f"shop.x{uuid.uuid4().hex[:8]}"
    text = LEAF.replace("shop.leaves", package)
    serialize = ProtobufSerializer(ours, text, subject=record_subject)
    serialize({"size": 1})
    assert ours.version(f"{package}.Leaf").schema_type == "PROTOBUF"


def test_values_that_do_not_match_are_rejected(ours: SchemaRegistry, topic: str) -> None:
    serialize = ProtobufSerializer(ours, LEAF, topic=topic)
    for wrong in ({"size": "x"}, {"weight": 1}, {"shape": "SQUARE"}, 3, {"size": 2**40}):
        with pytest.raises(SerializationFailed, match="does not match its Protobuf schema"):
            serialize(wrong)
    raw = serialize({"size": 1})
    read = ProtobufDeserializer(ours)
    for damaged in (raw[:5], raw[:5] + b"\x02\x0a", raw + b"\xff", b"\1" + raw[1:]):
        with pytest.raises(SerializationFailed):
            read(damaged)


def test_latest_version_is_used_on_request(ours: SchemaRegistry, topic: str) -> None:
    ours.register(f"{topic}-value", LEAF, schema_type="PROTOBUF")
    serialize = ProtobufSerializer(ours, topic=topic, use_latest_version=True)
    assert ProtobufDeserializer(ours, as_dict=True)(serialize({"size": 4})) == {"size": 4}
