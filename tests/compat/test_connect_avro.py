"""A Connect worker with Avro values, read and written by Confluent's serializers too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.connect_worker import WorkerProcess, eventually

pytestmark = pytest.mark.slow

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
        ],
    }
)


@pytest.fixture(scope="module")
def registry(shared_broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(shared_broker.bootstrap_servers) as started:
        yield started


@pytest.fixture(scope="module")
def worker(shared_broker: EmbeddedBroker) -> Iterator[WorkerProcess]:
    with WorkerProcess(shared_broker.bootstrap_servers, "avro-group") as started:
        yield started
        assert "Traceback" not in started.log_text, started.log_text


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


def converter(registry: EmbeddedRegistry) -> dict[str, str]:
    return {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }


def test_a_source_writes_what_confluents_deserializer_reads(
    worker: WorkerProcess,
    registry: EmbeddedRegistry,
    client: SchemaRegistryClient,
    shared_broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    rows = [{"id": 1, "tags": ["a"], "price": 1.5}, {"id": 2, "tags": None, "price": None}]
    (tmp_path / "a.json").write_text("".join(json.dumps(each) + "\n" for each in rows))
    config = {
        "connector.class": "FilesSource",
        "topic": "avro-out",
        "key": "id",
        "path": str(tmp_path),
        "format": "json",
        **converter(registry),
    }
    assert worker.ask("PUT", "/connectors/source/config", config).status == 201
    worker.wait_for_state("source", "RUNNING")
    settings = {
        "bootstrap.servers": shared_broker.bootstrap_servers,
        "group.id": "judge",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["avro-out"])
    read = AvroDeserializer(client)
    context = SerializationContext("avro-out", MessageField.VALUE)
    found = []

    def has_all() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.key(), read(message.value(), context)))
        return len(found) == len(rows)

    try:
        eventually(has_all, lambda: worker.log_text)
    finally:
        consumer.close()
    assert found == [(b"1", rows[0]), (b"2", rows[1])]


def test_a_sink_reads_what_confluents_serializer_writes_and_keeps_what_it_cannot(
    worker: WorkerProcess,
    registry: EmbeddedRegistry,
    client: SchemaRegistryClient,
    shared_broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    write = AvroSerializer(client, SCHEMA)
    context = SerializationContext("avro-in", MessageField.VALUE)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
    producer.produce("avro-in", write({"id": 1, "name": "a"}, context))
    producer.produce("avro-in", b"not avro")
    producer.produce("avro-in", write({"id": 2, "name": None}, context))
    producer.flush()
    config = {
        "connector.class": "FilesSink",
        "topics": "avro-in",
        "path": str(tmp_path / "out"),
        "format": "json",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "avro-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **converter(registry),
    }
    assert worker.ask("PUT", "/connectors/sink/config", config).status == 201

    def rows() -> list[object]:
        files = sorted((tmp_path / "out").glob("*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    expected = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    eventually(lambda: rows() == expected, lambda: worker.log_text)
    consumer = Consumer(
        {
            "bootstrap.servers": shared_broker.bootstrap_servers,
            "group.id": "judge-of-letters",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["avro-dead"])
    try:
        letter = eventually(lambda: consumer.poll(0.5), lambda: worker.log_text)
    finally:
        consumer.close()
    headers = dict(letter.headers())
    assert letter.value() == b"not avro"
    assert headers["__connect.errors.topic"] == b"avro-in"
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.connector.name"] == b"sink"


def test_a_sink_without_a_schema_in_the_registry_fails_and_says_so(
    worker: WorkerProcess, registry: EmbeddedRegistry, tmp_path: Path
) -> None:
    config = {
        "connector.class": "FilesSink",
        "topics": "avro-unknown",
        "path": str(tmp_path),
        **converter(registry),
    }
    assert worker.ask("PUT", "/connectors/unknown/config", config).status == 201
    status = worker.wait_for_state("unknown", "FAILED")
    assert "no subject avro-unknown-value" in status["tasks"][0]["trace"]
