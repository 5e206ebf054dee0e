"""Confluent's registry client and Avro serializers test our registry and serializers."""

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
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client import Consumer, Producer
from headwater.client.avro import AvroDeserializer, AvroSerializer, record_subject
from headwater.client.schema_registry import (
    SchemaIncompatible,
    SchemaInvalid,
    SchemaNotFound,
    SchemaRegistry,
)
from headwater.testing import EmbeddedRegistry

pytestmark = pytest.mark.xdist_group("schema-registry")

TIMEOUT_S = 60


def schema_of(*fields: dict[str, Any], name: str = "Tea") -> str:
    given = {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}
    return json.dumps(given)


KIND = {"name": "kind", "type": "string"}
FIRST = schema_of(KIND)
SECOND = schema_of(KIND, {"name": "grams", "type": ["null", "int"], "default": None})
INCOMPATIBLE = schema_of(KIND, {"name": "price", "type": "double"})


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
    """A unique name that has to be encoded."""
    return f"tea/{uuid.uuid4().hex[:8]} ü%-value"


def refused(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return error.value.http_status_code, error.value.error_code


def test_schemas_are_registered_found_and_evolved(
    theirs: SchemaRegistryClient, subject: str
) -> None:
    first = theirs.register_schema(subject, Schema(FIRST, "AVRO"))
    second = theirs.register_schema(subject, Schema(SECOND, "AVRO"))
    assert second > first
    assert theirs.get_versions(subject) == [1, 2]
    assert theirs.get_latest_version(subject).schema_id == second
    assert theirs.get_version(subject, 1).schema_id == first
    assert theirs.lookup_schema(subject, Schema(FIRST, "AVRO")).version == 1
    found = theirs.get_schema(first).schema_str
    assert found is not None
    assert json.loads(found) == json.loads(FIRST)
    assert subject in theirs.get_subjects()
    assert theirs.register_schema(subject, Schema(json.dumps(json.loads(FIRST)), "AVRO")) == first


def test_incompatible_schema_is_rejected_with_409(theirs: SchemaRegistryClient, topic: str) -> None:
    # Older versions of their client do not encode the subject here.
    subject = f"{topic}-value"
    theirs.register_schema(subject, Schema(FIRST, "AVRO"))
    assert theirs.test_compatibility(subject, Schema(SECOND, "AVRO"))
    assert not theirs.test_compatibility(subject, Schema(INCOMPATIBLE, "AVRO"))
    with pytest.raises(SchemaRegistryError) as error:
        theirs.register_schema(subject, Schema(INCOMPATIBLE, "AVRO"))
    assert refused(error) in [(409, 409), (409, 40901)]
    theirs.set_compatibility(subject, "NONE")
    assert theirs.get_compatibility(subject) == "NONE"
    theirs.register_schema(subject, Schema(INCOMPATIBLE, "AVRO"))


def test_deletes_are_soft_first_and_then_permanent(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, subject: str
) -> None:
    theirs.register_schema(subject, Schema(FIRST, "AVRO"))
    theirs.register_schema(subject, Schema(SECOND, "AVRO"))
    assert theirs.delete_version(subject, 1) == 1
    assert theirs.get_versions(subject) == [2]
    assert theirs.delete_subject(subject) == [2]
    with pytest.raises(SchemaRegistryError) as error:
        theirs.get_versions(subject)
    assert refused(error) == (404, 40401)
    # Their client does both steps at once in some versions, and the last in others.
    assert ours.delete(subject, permanent=True) == [1, 2]


def test_missing_and_invalid_schemas_have_confluents_codes(
    theirs: SchemaRegistryClient, subject: str
) -> None:
    with pytest.raises(SchemaRegistryError) as error:
        theirs.get_schema(123_456)
    assert refused(error) == (404, 40403)
    theirs.register_schema(subject, Schema(FIRST, "AVRO"))
    with pytest.raises(SchemaRegistryError) as error:
        theirs.get_version(subject, 9)
    assert refused(error) == (404, 40402)
    for schema in (Schema('{"type":"tea"}', "AVRO"), Schema("syntax = 3", "PROTOBUF")):
        with pytest.raises(SchemaRegistryError) as error:
            theirs.register_schema(f"{subject}-2", schema)
        assert refused(error) == (422, 42201)


def test_schemas_reference_each_other(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, subject: str
) -> None:
    leaf = schema_of({"name": "size", "type": "int"}, name="Leaf")
    theirs.register_schema(f"{subject}-leaf", Schema(leaf, "AVRO"))
    outer = schema_of({"name": "leaf", "type": "shop.Leaf"})
    references = [SchemaReference("shop.Leaf", f"{subject}-leaf", 1)]
    given = Schema(outer, "AVRO", references)
    serialize = ConfluentSerializer(
        theirs, given, conf={"subject.name.strategy": lambda *_: subject}
    )
    context = SerializationContext("tea", MessageField.VALUE)
    raw = serialize({"leaf": {"size": 3}}, context)
    assert raw is not None
    assert AvroDeserializer(ours)(raw) == {"leaf": {"size": 3}}
    with pytest.raises(SchemaRegistryError) as error:
        theirs.delete_subject(f"{subject}-leaf")
    assert refused(error) == (422, 42206)


def test_we_read_what_they_write(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, servers: str, topic: str
) -> None:
    serialize = ConfluentSerializer(theirs, SECOND)
    producer = ConfluentProducer({"bootstrap.servers": servers})
    value = {"kind": "green", "grams": 3}
    context = SerializationContext(topic, MessageField.VALUE)
    producer.produce(topic, value=serialize(value, context))
    assert producer.flush(TIMEOUT_S) == 0
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(ours),
    ) as consumer:
        consumer.subscribe([topic])
        read: list[Any] = [record.value for record in consumer.poll(TIMEOUT_S)]
        assert read == [value]


def test_they_read_what_we_write(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, servers: str, topic: str
) -> None:
    value = {"kind": "black", "grams": None}
    with Producer(
        bootstrap_servers=servers, value_serializer=AvroSerializer(ours, SECOND, topic=topic)
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
    assert ConfluentDeserializer(theirs)(message.value(), context) == value


def test_both_write_the_same_bytes_under_the_same_subjects(
    theirs: SchemaRegistryClient, ours: SchemaRegistry, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.KEY)
    value = {"kind": "green"}
    by_topic = ConfluentSerializer(theirs, FIRST)(value, context)
    assert (
        AvroSerializer(ours, FIRST, topic=topic, is_key=True, auto_register=False)(value)
        == by_topic
    )
    by_record = ConfluentSerializer(
        theirs, FIRST, conf={"subject.name.strategy": record_subject_name_strategy}
    )(value, context)
    assert (
        AvroSerializer(ours, FIRST, subject=record_subject, auto_register=False)(value) == by_record
    )


def test_reader_of_an_older_or_newer_version_reads_all(ours: SchemaRegistry, topic: str) -> None:
    old = AvroSerializer(ours, FIRST, topic=topic)({"kind": "green"})
    new = AvroSerializer(ours, SECOND, topic=topic)({"kind": "black", "grams": 5})
    as_first, as_second = AvroDeserializer(ours, FIRST), AvroDeserializer(ours, SECOND)
    assert [as_first(each) for each in (old, new)] == [{"kind": "green"}, {"kind": "black"}]
    assert as_second(old) == {"kind": "green", "grams": None}
    latest = AvroSerializer(ours, topic=topic, use_latest_version=True)
    assert latest({"kind": "white", "grams": 1})[:5] == new[:5]


def test_our_client_names_the_registrys_errors(ours: SchemaRegistry, subject: str) -> None:
    with pytest.raises(SchemaNotFound):
        ours.versions(subject)
    ours.register(subject, FIRST)
    with pytest.raises(SchemaIncompatible, match="price") as told:
        ours.register(subject, INCOMPATIBLE)
    assert told.value.error_code == 40901
    with pytest.raises(SchemaInvalid):
        ours.register(subject, "tea")
    assert any("price" in each for each in ours.incompatibilities(subject, INCOMPATIBLE))
    assert ours.incompatibilities(subject, SECOND) == []
