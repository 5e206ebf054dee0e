"""Confluent's client gets Confluent's codes and messages, as the guide lists them.

The guide is docs/guides/schema-registry.md.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)

from headwater.client import Admin, ConfigResource
from headwater.registry.registry_errors import REGISTER
from headwater.testing import EmbeddedBroker, EmbeddedRegistry

pytestmark = pytest.mark.xdist_group("schema-registry")

PAGE = Path(__file__).parents[2] / "docs/guides/schema-registry.md"
ROW = re.compile(r"^\| (\d{5}) \| `(.+?)` \| (.*)\|$", re.MULTILINE)

FIRST = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
SECOND = (
    '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"},'
    '{"name":"grams","type":"int","default":0}]}'
)
INCOMPATIBLE = SECOND.replace(',"default":0', "")
DETAILS = (
    "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'grams' at path "
    "'/fields/1' in the new schema has no default value and is missing in the old schema', "
    "additionalInfo:'grams'}, {oldSchemaVersion: 1}, {oldSchema: '" + FIRST + "'}, "
    "{validateFields: 'false', compatibility: 'BACKWARD'}"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker of its own: the limit of its schemas topic is changed."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Provoked:
    """A rejected request, and the values in the message's placeholders."""

    request: Callable[[SchemaRegistryClient, str], object]
    blanks: dict[str, object]


def avro(text: str) -> Schema:
    return Schema(text, "AVRO")


def register(client: SchemaRegistryClient, subject: str, *texts: str) -> None:
    for text in texts:
        client.register_schema(subject, avro(text))


def twice(client: SchemaRegistryClient, subject: str) -> None:
    register(client, subject, FIRST)
    client.delete_subject(subject)
    client.delete_subject(subject)


def version_twice(client: SchemaRegistryClient, subject: str) -> None:
    register(client, subject, FIRST, SECOND)
    client.delete_version(subject, 1)
    client.delete_version(subject, 1)


def after(*texts: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register these first."""

    def wrapped(request: Callable[..., object]) -> Callable[..., object]:
        def run(client: SchemaRegistryClient, subject: str) -> object:
            register(client, subject, *texts)
            return request(client, subject)

        return run

    return wrapped


def read_only(client: SchemaRegistryClient, subject: str) -> None:
    client.update_mode(subject, "READONLY")
    register(client, subject, FIRST)


def referred(client: SchemaRegistryClient, subject: str) -> None:
    register(client, subject, FIRST)
    outer = '{"type":"record","name":"Cup","fields":[{"name":"tea","type":"Tea"}]}'
    reference = SchemaReference("Tea", subject, 1)
    client.register_schema(f"{subject}-outer", Schema(outer, "AVRO", [reference]))
    client.delete_subject(subject)


PROVOKED: dict[tuple[int, str], Provoked] = {
    (40401, "Subject "): Provoked(lambda c, s: c.get_versions(s), {}),
    (40402, "Version "): Provoked(after(FIRST)(lambda c, s: c.get_version(s, 9)), {"version": 9}),
    (40403, "Schema {id}"): Provoked(lambda c, _: c.get_schema(123_456), {"id": 123_456}),
    (40403, "Schema not"): Provoked(
        after(FIRST)(lambda c, s: c.lookup_schema(s, avro(SECOND))), {}
    ),
    (40404, "Subject "): Provoked(twice, {}),
    (40405, "Subject "): Provoked(
        after(FIRST)(lambda c, s: c.delete_subject(s, permanent=True)), {}
    ),
    (40406, "Subject "): Provoked(version_twice, {"version": 1}),
    (40407, "Subject "): Provoked(
        after(FIRST)(lambda c, s: c.delete_version(s, 1, permanent=True)), {"version": 1}
    ),
    (40408, "Subject "): Provoked(lambda c, s: c.get_compatibility(s), {}),
    (40409, "Subject "): Provoked(lambda c, s: c.get_mode(s), {}),
    (40901, "Schema being"): Provoked(
        after(FIRST)(lambda c, s: c.register_schema(s, avro(INCOMPATIBLE))), {"details": DETAILS}
    ),
    (42201, "Invalid schema of"): Provoked(
        lambda c, s: c.register_schema(s, avro('{"type":"tea"}')),
        {"type": "AVRO", "details": 'undefined name: "tea"'},
    ),
    (42201, "Invalid schema type"): Provoked(
        lambda c, s: c.register_schema(s, Schema("struct Tea {}", "THRIFT")),
        {"type": "THRIFT"},
    ),
    (42201, "Empty"): Provoked(lambda c, s: c.register_schema(s, avro("")), {}),
    (42202, "The specified"): Provoked(
        lambda c, s: c.get_version(s, cast("int", "tea")), {"version": "tea"}
    ),
    (42203, "Invalid"): Provoked(lambda c, s: c.set_compatibility(s, "tea"), {}),
    (42204, "Invalid"): Provoked(lambda c, s: c.update_mode(s, "tea"), {}),
    (42205, "Subject "): Provoked(read_only, {}),
    (42205, "Cannot"): Provoked(after(FIRST)(lambda c, s: c.update_mode(s, "IMPORT")), {}),
    (42206, "One or"): Provoked(referred, {"version": 1}),
    (42208, "The specified"): Provoked(
        lambda c, s: c.register_schema(f":.other:{s}", avro(FIRST)),
        {"subject": ":.other:{subject}"},
    ),
}
ELSEWHERE = {42209, 50001, 50002, 50003}
"""Provoked in tests of their own."""


def table() -> dict[tuple[int, str], str]:
    """Return the rows of the page: a code, and a message with placeholders."""
    return {(int(code), text): text for code, text, _ in ROW.findall(PAGE.read_text())}


def filled(template: str, blanks: dict[str, object], subject: str) -> str:
    text = template
    for name, value in {"subject": subject, **blanks}.items():
        text = text.replace(f"{{{name}}}", str(value).replace("{subject}", subject))
    return text


def row_of(code: int, beginning: str) -> str:
    [found] = [text for each, text in table() if each == code and text.startswith(beginning)]
    return found


@pytest.mark.parametrize(("code", "beginning"), PROVOKED)
def test_error_has_confluents_code_and_message(
    client: SchemaRegistryClient, code: int, beginning: str
) -> None:
    provoked = PROVOKED[code, beginning]
    subject = f"tea-{uuid.uuid4().hex[:8]}-value"
    with pytest.raises(SchemaRegistryError) as error:
        provoked.request(client, subject)
    told = error.value
    assert (told.http_status_code, told.error_code) == (code // 100, code)
    assert told.error_message == filled(row_of(code, beginning), provoked.blanks, subject)


def test_every_row_of_the_page_is_provoked() -> None:
    provoked = [row_of(code, beginning) for code, beginning in PROVOKED]
    assert sorted(provoked) == sorted(text for code, text in table() if code not in ELSEWHERE)
    assert {code for code, _ in table()} >= ELSEWHERE


def test_schema_too_large_for_its_topic_is_rejected(
    broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    resource = ConfigResource.topic("_schemas")
    fields = [{"name": f"f{each}", "type": "string"} for each in range(2_000)]
    large = json.dumps({"type": "record", "name": "Large", "fields": fields})
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({resource: {"max.message.bytes": "10000"}})
        try:
            with pytest.raises(SchemaRegistryError) as error:
                client.register_schema("large-value", avro(large))
        finally:
            admin.alter_configs({resource: {"max.message.bytes": "1048588"}})
    assert (error.value.error_code, error.value.error_message) == (42209, row_of(42209, ""))


def test_failed_write_has_the_message_of_the_page() -> None:
    refusals = (REGISTER.store_failed(), REGISTER.has_timed_out(), REGISTER.forwarding_failed())
    for each in refusals:
        assert each.message == row_of(each.error_code, "")


def test_current_parameters_guids_and_contexts_are_served(client: SchemaRegistryClient) -> None:
    subject = f"tea-{uuid.uuid4().hex[:8]}-value"
    registered = client.register_schema_full_response(subject, avro(FIRST))
    assert registered.guid is not None
    assert registered.version == 1
    assert client.get_schema_by_guid(registered.guid).schema_str == FIRST
    with pytest.raises(SchemaRegistryError) as error:
        client.get_schema_by_guid(str(uuid.UUID(int=7)))
    assert error.value.error_message == f"Schema {uuid.UUID(int=7)} not found"
    assert client.get_contexts() == ["."]
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert subject in client.get_subjects_by_schema_id(registered.schema_id or 0)
    versions = client.get_schema_versions(registered.schema_id or 0, subject_name=subject)
    assert [(each.subject, each.version) for each in versions] == [(subject, 1)]
    assert client.get_versions(f":.:{subject}") == [1]
    assert client.lookup_schema(subject, avro(FIRST)).guid == registered.guid
    assert client.get_latest_version(subject).guid == registered.guid
    client.delete_subject(subject)
    assert subject in client.get_subjects(deleted_only=True)
    assert subject not in client.get_subjects()
    assert subject in client.get_subjects(deleted=True, subject_prefix=":*:tea-")
