"""Confluent's registry client and JSON serializers test our registry and serializers."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
)

from headwater.client import Consumer, Producer
from headwater.client.errors import SerializationFailed
from headwater.client.json_schema import JsonDeserializer, JsonSerializer, record_subject
from headwater.client.schema_registry import SchemaIncompatible, SchemaInvalid, SchemaRegistry
from headwater.client.schema_registry import SchemaReference as OurReference
from headwater.testing import EmbeddedRegistry

pytestmark = pytest.mark.xdist_group("schema-registry")

TIMEOUT_S = 60
DRAFT = "http://json-schema.org/draft-07/schema#"


def schema_of(**properties: Any) -> str:
    return json.dumps(
        {
            "$schema": DRAFT,
            "title": "Tea",
            "type": "object",
            "properties": properties,
            "required": ["kind"],
            "additionalProperties": False,
        }
    )


KIND = {"type": "string"}
FIRST = schema_of(kind=KIND)
SECOND = schema_of(kind=KIND, grams={"type": ["integer", "null"], "minimum": 0})
INCOMPATIBLE = schema_of(kind={"type": "string", "maxLength": 3})


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
def subject() -> str:
    return f"tea-{uuid.uuid4().hex[:8]}-value"


def taken_apart(raw: bytes | None) -> tuple[bytes, Any]:
    """Older versions of their serializer write JSON with spaces."""
    assert raw is not None
    return raw[:5], json.loads(raw[5:])


def refused(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return error.value.http_status_code, error.value.error_code


def test_json_schemas_are_registered_found_and_evolved(
    theirs: SchemaRegistryClient, subject: str
) -> None:
    first = theirs.register_schema(subject, Schema(FIRST, "JSON"))
    second = theirs.register_schema(subject, Schema(SECOND, "JSON"))
    assert second > first
    assert theirs.get_versions(subject) == [1, 2]
    assert theirs.get_latest_version(subject).schema_id == second
    assert theirs.lookup_schema(subject, Schema(FIRST, "JSON")).version == 1
    found = theirs.get_schema(first)
    assert found.schema_type == "JSON"
    assert found.schema_str == json.dumps(json.loads(FIRST), separators=(",", ":"))
    assert theirs.register_schema(subject, Schema(f" {FIRST} ", "JSON")) == first


def test_incompatible_and_invalid_schemas_have_confluents_codes(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, subject: str
) -> None:
    theirs.register_schema(subject, Schema(FIRST, "JSON"))
    assert theirs.test_compatibility(subject, Schema(SECOND, "JSON"))
    assert not theirs.test_compatibility(subject, Schema(INCOMPATIBLE, "JSON"))
    with pytest.raises(SchemaRegistryError) as error:
        theirs.register_schema(subject, Schema(INCOMPATIBLE, "JSON"))
    assert refused(error) in [(409, 409), (409, 40901)]
    with pytest.raises(SchemaIncompatible, match="MAX_LENGTH_ADDED"):
        ours.register(subject, INCOMPATIBLE, schema_type="JSON")
    with pytest.raises(SchemaRegistryError) as error:
        theirs.register_schema(subject, Schema('{"type":"tea"}', "JSON"))
    assert refused(error) == (422, 42201)
    with pytest.raises(SchemaInvalid, match="#/type"):
        ours.register(subject, '{"type":"tea"}', schema_type="JSON")
    theirs.set_compatibility(subject, "NONE")
    theirs.register_schema(subject, Schema(INCOMPATIBLE, "JSON"))


def test_schemas_reference_each_other(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, subject: str
) -> None:
    leaf = json.dumps({"type": "object", "properties": {"size": {"type": "integer"}}})
    theirs.register_schema(f"{subject}-leaf", Schema(leaf, "JSON"))
    outer = schema_of(kind=KIND, leaf={"$ref": "leaf.json"})
    given = Schema(outer, "JSON", [SchemaReference("leaf.json", f"{subject}-leaf", 1)])
    serialize = JSONSerializer(given, theirs, conf={"subject.name.strategy": lambda *_: subject})
    context = SerializationContext("tea", MessageField.VALUE)
    value = {"kind": "green", "leaf": {"size": 3}}
    raw = serialize(value, context)
    assert raw is not None
    assert JsonDeserializer(ours)(raw) == value
    with pytest.raises(SerializationFailed, match="size"):
        JsonDeserializer(ours)(raw[:5] + b'{"kind": "green", "leaf": {"size": "x"}}')
    references = (OurReference(name="leaf.json", subject=f"{subject}-leaf", version=1),)
    write = JsonSerializer(ours, outer, subject=subject, references=references)
    assert taken_apart(write(value)) == taken_apart(raw)
    read = JSONDeserializer(given, schema_registry_client=theirs)
    assert read(write(value), context) == value
    with pytest.raises(SchemaRegistryError) as error:
        theirs.delete_subject(f"{subject}-leaf")
    assert refused(error) == (422, 42206)


def test_we_read_what_they_write(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, servers: str, topic: str
) -> None:
    serialize = JSONSerializer(SECOND, theirs)
    producer = ConfluentProducer({"bootstrap.servers": servers})
    value = {"kind": "grün", "grams": 3}
    context = SerializationContext(topic, MessageField.VALUE)
    producer.produce(topic, value=serialize(value, context))
    assert producer.flush(TIMEOUT_S) == 0
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        value_deserializer=JsonDeserializer(ours),
    ) as consumer:
        consumer.subscribe([topic])
        read: list[Any] = [record.value for record in consumer.poll(TIMEOUT_S)]
        assert read == [value]


def test_they_read_what_we_write(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, servers: str, topic: str
) -> None:
    value = {"kind": "schwärzer", "grams": None}
    with Producer(
        bootstrap_servers=servers, value_serializer=JsonSerializer(ours, SECOND, topic=topic)
    ) as producer:
        producer.send(topic, value).result(TIMEOUT_S)
    consumer = ConfluentConsumer(
        {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        [message] = consumer.consume(1, timeout=TIMEOUT_S)
    finally:
        consumer.close()
    context = SerializationContext(topic, MessageField.VALUE)
    read = JSONDeserializer(SECOND, schema_registry_client=theirs)
    assert read(message.value(), context) == value


def test_both_write_the_same_under_the_same_subjects(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.KEY)
    value = {"kind": "grün"}
    by_topic = taken_apart(JSONSerializer(FIRST, theirs)(value, context))
    by_ours = JsonSerializer(ours, FIRST, topic=topic, is_key=True, auto_register=False)
    assert taken_apart(by_ours(value)) == by_topic
    by_name = {"subject.name.strategy": record_subject_name_strategy}
    by_record = taken_apart(JSONSerializer(FIRST, theirs, conf=by_name)(value, context))
    by_ours = JsonSerializer(ours, FIRST, subject=record_subject, auto_register=False)
    assert taken_apart(by_ours(value)) == by_record
    latest = JsonSerializer(ours, topic=topic, is_key=True, use_latest_version=True)
    assert taken_apart(latest(value)) == by_topic


@pytest.mark.parametrize("value", [{}, {"kind": 3}, {"kind": "a", "price": 1}])
def test_both_reject_the_same_values(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str, value: Any
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    with pytest.raises(SerializationError):
        JSONSerializer(FIRST, theirs)(value, context)
    with pytest.raises(SerializationFailed):
        JsonSerializer(ours, FIRST, topic=topic)(value)
