"""Avro serializers with a registry in memory."""

import json
from typing import Any

import pytest

from headwater.client.avro import (
    AvroDeserializer,
    AvroSerializer,
    record_subject,
    topic_record_subject,
    topic_subject,
)
from headwater.client.errors import InvalidArgument, SerializationFailed
from headwater.client.schema_registry import (
    RegisteredSchema,
    RegistryUnreachable,
    SchemaNotFound,
    SchemaRegistry,
)
from headwater.common.exceptions import InvalidSetting

TEA = json.dumps(
    {
        "type": "record",
        "name": "Tea",
        "namespace": "shop",
        "fields": [{"name": "kind", "type": "string"}, {"name": "grams", "type": "int"}],
    }
)


class MemoryRegistry(SchemaRegistry):
    """Answers from a dictionary and counts requests."""

    def __init__(self) -> None:
        super().__init__("http://nowhere")
        self.texts: list[str] = []
        self.subjects_used: list[str] = []
        self.asked = 0

    def register(self, subject: str, schema: str, *_: Any, **__: Any) -> int:
        self.asked += 1
        self.subjects_used.append(subject)
        if schema not in self.texts:
            self.texts.append(schema)
        return self.texts.index(schema) + 1

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        if schema_id > len(self.texts):
            raise SchemaNotFound("none", status=404, error_code=40403)
        return RegisteredSchema(id=schema_id, schema=self.texts[schema_id - 1])


def test_a_value_has_confluents_wire_format() -> None:
    serialize = AvroSerializer(MemoryRegistry(), TEA, topic="tea")
    assert serialize({"kind": "green", "grams": 3}) == b"\0\0\0\0\x01\x0agreen\x06"


def test_each_schema_is_requested_once() -> None:
    registry = MemoryRegistry()
    serialize, deserialize = AvroSerializer(registry, TEA, topic="t"), AvroDeserializer(registry)
    for grams in range(5):
        value = {"kind": "green", "grams": grams}
        assert deserialize(serialize(value)) == value
    assert registry.asked == 2


def test_the_schema_cache_is_bounded() -> None:
    registry = MemoryRegistry()
    one = AvroSerializer(registry, '"string"', topic="a")("x")
    two = AvroSerializer(registry, '"int"', topic="b")(1)
    deserialize = AvroDeserializer(registry, cached_max=1)
    before = registry.asked
    for raw in (one, two, one, one):
        deserialize(raw)
    assert registry.asked - before == 3
    with pytest.raises(InvalidArgument):
        AvroDeserializer(registry, cached_max=0)


def test_subject_names_follow_confluents_strategies() -> None:
    names: dict[Any, str] = {
        topic_subject: "tea-value",
        record_subject: "shop.Tea",
        topic_record_subject: "tea-shop.Tea",
        "mine": "mine",
    }
    for way, name in names.items():
        registry = MemoryRegistry()
        AvroSerializer(registry, TEA, topic="tea", subject=way)({"kind": "", "grams": 0})
        assert registry.subjects_used == [name]


def test_a_missing_topic_or_record_name_is_rejected_at_once() -> None:
    with pytest.raises(InvalidSetting, match="topic"):
        AvroSerializer(MemoryRegistry(), TEA)
    with pytest.raises(InvalidSetting, match="name"):
        AvroSerializer(MemoryRegistry(), '"string"', subject=record_subject)
    with pytest.raises(InvalidSetting, match="schema"):
        AvroSerializer(MemoryRegistry(), topic="tea")


@pytest.mark.parametrize(
    "value", [None, 5, {}, {"kind": 1, "grams": 1}, {"kind": "a", "grams": 2**40}]
)
def test_a_value_that_does_not_match_is_rejected(value: Any) -> None:
    with pytest.raises(SerializationFailed):
        AvroSerializer(MemoryRegistry(), TEA, topic="tea")(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\0\0",
        b"\1\0\0\0\1\x0agreen\6",
        b"\0\0\0\0\1",
        b"\0\0\0\0\1\x0agre",
        b"\0\0\0\0\1\x0agreen\6more",
        b"\0\0\0\0\x09\x0agreen\6",
        b"\0\0\0\0\1" + b"\xff" * 30,
    ],
)
def test_malformed_bytes_are_rejected(raw: bytes) -> None:
    registry = MemoryRegistry()
    registry.register("tea-value", TEA)
    with pytest.raises(SerializationFailed):
        AvroDeserializer(registry)(raw)


def test_an_unreachable_registry_is_named() -> None:
    with (
        SchemaRegistry("http://127.0.0.1:1,http://127.0.0.1:2") as registry,
        pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:1"),
    ):
        registry.subjects()


@pytest.mark.parametrize("url", ["tea", "ftp://host", "http://", "http://host:port"])
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidSetting):
        SchemaRegistry(url)
