"""JSON Schema serializers with a registry in memory."""

import builtins
import json
from typing import Any

import pytest

from headwater.client.errors import SerializationFailed
from headwater.client.json_schema import (
    JsonDeserializer,
    JsonSerializer,
    record_subject,
    topic_record_subject,
    topic_subject,
)
from headwater.client.schema_registry import (
    RegisteredSchema,
    SchemaNotFound,
    SchemaReference,
    SchemaRegistry,
)
from headwater.common.exceptions import InvalidSetting

TEA = {
    "title": "Tea",
    "type": "object",
    "properties": {"kind": {"type": "string"}, "grams": {"type": "integer"}},
    "required": ["kind"],
    "additionalProperties": False,
}


class MemoryRegistry(SchemaRegistry):
    """Answers from a list and counts requests."""

    def __init__(self) -> None:
        super().__init__("http://nowhere")
        self.known: list[RegisteredSchema] = []
        self.subjects_used: list[str] = []
        self.asked = 0

    def register(
        self,
        subject: str,
        schema: str,
        references: Any = (),
        *,
        schema_type: str = "AVRO",
        normalize: bool = False,
    ) -> int:
        del normalize
        self.asked += 1
        self.subjects_used.append(subject)
        number = len(self.known) + 1
        found = RegisteredSchema(
            id=number,
            schema=schema,
            subject=subject,
            version=1,
            schema_type=schema_type,
            references=tuple(references),
        )
        self.known.append(found)
        return number

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        if schema_id > len(self.known):
            raise SchemaNotFound("none", status=404, error_code=40403)
        return self.known[schema_id - 1]

    def version(
        self, subject: str, version: int | str = "latest", *, deleted: bool = False
    ) -> RegisteredSchema:
        del version, deleted
        return next(each for each in self.known if each.subject == subject)


def test_a_value_has_confluents_wire_format() -> None:
    registry = MemoryRegistry()
    serialize = JsonSerializer(registry, TEA, topic="tea")
    assert serialize({"kind": "grün", "grams": 3}) == (
        b"\0\0\0\0\x01" + '{"kind":"grün","grams":3}'.encode()
    )
    assert registry.known[0].schema_type == "JSON"


def test_each_schema_is_requested_once() -> None:
    registry = MemoryRegistry()
    serialize, deserialize = JsonSerializer(registry, TEA, topic="t"), JsonDeserializer(registry)
    for grams in range(5):
        value = {"kind": "green", "grams": grams}
        assert deserialize(serialize(value)) == value
    assert registry.asked == 2


def test_subject_names_follow_confluents_strategies() -> None:
    names: dict[Any, str] = {
        topic_subject: "tea-value",
        record_subject: "Tea",
        topic_record_subject: "tea-Tea",
        "mine": "mine",
    }
    for way, name in names.items():
        registry = MemoryRegistry()
        JsonSerializer(registry, TEA, topic="tea", subject=way)({"kind": ""})
        assert registry.subjects_used == [name]


def test_a_missing_topic_or_record_name_is_rejected_at_once() -> None:
    with pytest.raises(InvalidSetting, match="topic"):
        JsonSerializer(MemoryRegistry(), TEA)
    with pytest.raises(InvalidSetting, match="name"):
        JsonSerializer(MemoryRegistry(), "{}", subject=record_subject)
    with pytest.raises(InvalidSetting, match="schema"):
        JsonSerializer(MemoryRegistry(), topic="tea")
    with pytest.raises(InvalidSetting, match="JSON"):
        JsonSerializer(MemoryRegistry(), "{", topic="tea")


@pytest.mark.parametrize("value", [5, {}, {"kind": 1}, {"kind": "a", "price": 2}, None])
def test_a_value_that_does_not_match_is_rejected(value: Any) -> None:
    with pytest.raises(SerializationFailed, match="does not match its JSON Schema"):
        JsonSerializer(MemoryRegistry(), TEA, topic="tea")(value)


def test_a_validation_error_has_the_path_in_the_value() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer"}}}}
    with pytest.raises(SerializationFailed, match=r"\$\.a\[1\]: 'x' is not of type 'integer'"):
        JsonSerializer(MemoryRegistry(), schema, topic="tea")({"a": [1, "x"]})


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", "\ud800"])
def test_a_value_without_a_json_form_is_rejected(value: Any) -> None:
    with pytest.raises(SerializationFailed, match="cannot serialize value as JSON"):
        JsonSerializer(MemoryRegistry(), True, topic="tea")(value)


def test_without_validation_any_json_passes_without_the_registry() -> None:
    registry = MemoryRegistry()
    raw = JsonSerializer(registry, TEA, topic="tea", validate=False)({"price": 2})
    asked = registry.asked
    assert JsonDeserializer(registry, validate=False)(raw) == {"price": 2}
    assert registry.asked == asked
    with pytest.raises(SerializationFailed, match="does not match schema 1"):
        JsonDeserializer(registry)(raw)


def test_a_reader_schema_replaces_the_writers() -> None:
    registry = MemoryRegistry()
    raw = JsonSerializer(registry, TEA, topic="tea")({"kind": "green"})
    assert JsonDeserializer(registry, {"required": ["kind"]})(raw) == {"kind": "green"}
    with pytest.raises(SerializationFailed, match="the reader's schema"):
        JsonDeserializer(registry, json.dumps({"required": ["grams"]}))(raw)


def test_schema_references_are_resolved() -> None:
    registry = MemoryRegistry()
    registry.register("leaf", '{"$ref": "size.json"}', [_named("size.json")], schema_type="JSON")
    registry.register("size.json", '{"type": "integer"}', schema_type="JSON")
    outer = {"$id": "http://tea.shop/outer.json", "properties": {"size": {"$ref": "leaf.json"}}}
    references = (SchemaReference(name="leaf.json", subject="leaf", version=1),)
    serialize = JsonSerializer(registry, outer, topic="tea", references=references)
    raw = serialize({"size": 3})
    assert JsonDeserializer(registry)(raw) == {"size": 3}
    with pytest.raises(SerializationFailed, match="'x' is not of type 'integer'"):
        serialize({"size": "x"})


def _named(name: str) -> SchemaReference:
    return SchemaReference(name=name, subject=name, version=1)


def test_unresolvable_references_and_invalid_schemas_are_named() -> None:
    lost = JsonSerializer(MemoryRegistry(), {"$ref": "lost.json"}, topic="tea")
    with pytest.raises(SerializationFailed, match=r"lost\.json"):
        lost({})
    wrong = JsonSerializer(MemoryRegistry(), {"type": "strin"}, topic="tea")
    with pytest.raises(SerializationFailed, match="invalid JSON Schema"):
        wrong({})


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0\0\0\0", b"\1\0\0\0\1{}", b"\0\0\0\0\1", b"\0\0\0\0\1{", b"\0\0\0\0\1NaN",
     b"\0\0\0\0\1\xff", b"\0\0\0\0\x09{}", b'\0\0\0\0\2{"kind":"a"}'],
)  # fmt: skip
def test_malformed_bytes_are_rejected(raw: bytes) -> None:
    registry = MemoryRegistry()
    registry.register("tea-value", json.dumps(TEA), schema_type="JSON")
    registry.register("avro", '"string"')
    with pytest.raises(SerializationFailed):
        JsonDeserializer(registry)(raw)


def test_without_jsonschema_the_extra_is_named_unless_validation_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name.partition(".")[0] in ("jsonschema", "referencing"):
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    registry = MemoryRegistry()
    with pytest.raises(InvalidSetting, match=r"headwater\[json\]"):
        JsonSerializer(registry, TEA, topic="tea")
    with pytest.raises(InvalidSetting, match=r"headwater\[json\]"):
        JsonDeserializer(registry)
    raw = JsonSerializer(registry, TEA, topic="tea", validate=False)({"kind": "green"})
    assert JsonDeserializer(registry, validate=False)(raw) == {"kind": "green"}
