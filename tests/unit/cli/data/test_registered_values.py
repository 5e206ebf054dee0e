"""`headwater produce` and `consume` with a registry, checked by confluent-kafka."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client import Consumer, ConsumerRecord, Producer
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.unit.cli.shell import Shell

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Tea",
        "fields": [
            {"name": "kind", "type": "string"},
            {"name": "cups", "type": ["null", "int"], "default": None},
        ],
    }
)
JSON_SCHEMA = json.dumps(
    {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
)
PROTOBUF = 'syntax = "proto3"; message Tea { string kind = 1; int32 cups = 2; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(broker: EmbeddedBroker) -> Iterator[str]:
    with EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


def values(shell: Shell, topic: str, *words: str) -> list[object]:
    return [row["value"] for row in shell.tells("consume", topic, "-f", "-e", *words)]


@pytest.mark.parametrize(
    ("name", "schema", "line"),
    [
        ("tea.avsc", AVRO, {"kind": "sencha", "cups": {"int": 2}}),
        ("tea.json", JSON_SCHEMA, {"kind": "sencha"}),
        ("tea.proto", PROTOBUF, {"kind": "sencha", "cups": 2}),
    ],
)
def test_values_are_encoded_and_decoded_with_their_schema(
    shell: Shell, url: str, tmp_path: Path, name: str, schema: str, line: dict[str, object]
) -> None:
    topic = name.replace(".", "-")
    file = tmp_path / name
    file.write_text(schema)
    shell.does("topics", "create", topic)
    given = json.dumps(line) + "\n"
    shell.does("produce", topic, "--registry", url, "--value-schema", str(file), given=given)
    # The schema is registered now.
    shell.does("produce", topic, "--registry", url, given=given)
    assert values(shell, topic, "--registry", url) == [line, line]
    [raw, _] = values(shell, topic)
    assert raw != line
    printed = shell.does("consume", topic, "-f", "-e", "-n", "1", "--registry", url)
    assert json.loads(printed) == line


def test_confluents_deserializer_reads_what_produce_encodes(
    shell: Shell, broker: EmbeddedBroker, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "tea.avsc"
    file.write_text(AVRO)
    shell.does("topics", "create", "theirs")
    words = ["--registry", url, "--value-schema", str(file)]
    shell.does("produce", "theirs", *words, given='{"kind": "assam", "cups": null}\n')
    context = SerializationContext("theirs", MessageField.VALUE)
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id="theirs"
    ) as consumer:
        consumer.subscribe(["theirs"])
        found: list[ConsumerRecord] = []
        while not found:
            found = consumer.poll(1)
    with SchemaRegistryClient({"url": url}) as registry:
        read = AvroDeserializer(registry)(found[0].value, context)
        assert read == {"kind": "assam", "cups": None}
        written = AvroSerializer(registry, AVRO)({"kind": "oolong", "cups": 3}, context)
        assert written is not None
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("theirs", written).result(60)
    assert values(shell, "theirs", "--registry", url)[1] == {"kind": "oolong", "cups": {"int": 3}}


def test_what_cannot_be_decoded_is_printed_and_reported(shell: Shell, url: str) -> None:
    shell.does("topics", "create", "mixed")
    with Producer(bootstrap_servers=shell.bootstrap) as producer:
        for value in (b"plain", b"\0\0\0\x7f\x7fx", None):
            producer.send("mixed", value).result(60)
    result = shell.run("consume", "mixed", "-f", "-e", "--json", "--registry", url)
    assert [json.loads(line)["value"] for line in result.stdout.splitlines()] == [
        "plain",
        "\0\0\0\x7f\x7fx",
        None,
    ]
    assert result.exit_code == 1
    [error] = map(json.loads, result.stderr.splitlines())
    assert error["message"] == (
        "mixed-0 offset 1: cannot decode the value: the registry has no schema with id 32639"
    )
    explicit = shell.run(
        "consume", "mixed", "-f", "-e", "-n", "1", "--registry", url, "--value-format", "avro"
    )
    assert explicit.exit_code == 1
    assert explicit.stdout == "plain\n"
    assert "does not start with byte 0 and a schema id" in explicit.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--value-format", "avro"], "avro needs a schema registry"),
        (["--value-format", "xml"], "'xml' is not one of auto, raw, avro, json-schema, protobuf"),
    ],
)
def test_a_format_without_a_registry_is_refused(shell: Shell, words: list[str], error: str) -> None:
    shell.does("topics", "create", "refused", "--if-not-exists")
    for command in ("consume", "produce"):
        result = shell.run(command, "refused", *words)
        assert result.exit_code == 2
        assert error in " ".join(result.stderr.replace("│", " ").split())


def test_lines_that_do_not_fit_the_schema_are_not_sent(
    shell: Shell, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "tea.avsc"
    file.write_text(AVRO)
    shell.does("topics", "create", "misfit")
    missing = shell.run("produce", "misfit", "--registry", url, given="{}\n")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "headwater: the registry has no subject misfit-value; register a schema with "
        "--value-schema FILE\n",
    )
    bad = shell.run(
        "produce", "misfit", "--registry", url, "--value-schema", str(file), given='{"kind": 1}\n'
    )
    assert bad.exit_code == 1
    assert "line 1: data does not match its Avro schema" in bad.stderr
    assert values(shell, "misfit") == []


def test_keys_are_encoded_if_asked(shell: Shell, url: str, tmp_path: Path) -> None:
    file = tmp_path / "id.avsc"
    file.write_text('"long"')
    shell.does("topics", "create", "keyed")
    words = ["--registry", url, "--value-format", "raw", "--key-schema", str(file), "-K", "|"]
    shell.does("produce", "keyed", *words, given="7|seven\n")
    [row] = shell.tells("consume", "keyed", "-f", "-e", "--registry", url)
    assert (row["key"], row["value"]) == (7, "seven")
