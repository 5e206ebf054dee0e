"""Decisions of the registry, without a broker and without HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest

from headwater.registry import commands, queries
from headwater.registry.registry_errors import RestError
from headwater.registry.registry_state import State, guid_of
from headwater.registry.schema_submission import read_submitted
from headwater.registry.schemas_topic_records import ConfigKey, Reference, SchemaValue, read_entry
from tests.unit.registry.registry_schemas import (
    KIND,
    KIND_AND_GRAMS,
    KIND_AND_PRICE,
    carry_out,
    field,
    record,
    submitted,
)


class Registry:
    """A state, and commands executed on it."""

    def __init__(self) -> None:
        self.state = State()

    def register(self, subject: str, schema: str, *references: Reference, **more: Any) -> int:
        given = submitted(schema, *references, **more)
        answer = carry_out(self.state, commands.register(self.state, subject, given))
        assert isinstance(answer, SchemaValue)
        return answer.id

    def do(self, command: Any, *arguments: Any, **options: Any) -> Any:
        return carry_out(self.state, command(self.state, *arguments, **options))

    def numbers(self, subject: str, *, deleted: bool = False) -> list[int]:
        return [each.version for each in self.state.versions(subject, deleted=deleted)]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@contextmanager
def refused(code: int) -> Iterator[pytest.ExceptionInfo[RestError]]:
    with pytest.raises(RestError) as told:
        yield told
    assert told.value.error_code == code


def test_schema_has_the_same_id_in_all_subjects(registry: Registry) -> None:
    assert registry.register("tea-value", KIND) == 1
    assert registry.register("coffee-value", KIND_AND_GRAMS) == 2
    assert registry.register("coffee-value", KIND) == 1
    assert registry.numbers("coffee-value") == [1, 2]


def test_registered_schema_is_returned_and_not_written_again(registry: Registry) -> None:
    registry.register("tea-value", KIND)
    spaced = json.dumps(json.loads(KIND), indent=4)
    again = commands.register(registry.state, "tea-value", submitted(spaced))
    assert again == commands.RegistryChange((), registry.state.schemas[1])


def test_incompatible_schema_is_rejected_with_the_reason(registry: Registry) -> None:
    registry.register("tea-value", KIND)
    with refused(40901) as told:
        registry.register("tea-value", KIND_AND_PRICE)
    assert str(told.value).startswith(
        'Schema being registered is incompatible with an earlier schema for subject "tea-value", '
        "details: [{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'price' "
        "at path '/fields/1' in the new schema has no default value and is missing in the old "
        "schema', additionalInfo:'price'}, {oldSchemaVersion: 1}, {oldSchema: '"
    )
    assert str(told.value).endswith("'}, {validateFields: 'false', compatibility: 'BACKWARD'}]")
    assert registry.numbers("tea-value") == [1]


LEVELS = {
    "NONE": (True, True),
    "BACKWARD": (False, True),
    "BACKWARD_TRANSITIVE": (False, True),
    "FORWARD": (True, False),
    "FORWARD_TRANSITIVE": (True, False),
    "FULL": (False, False),
    "FULL_TRANSITIVE": (False, False),
}


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_checks_its_own_direction(registry: Registry, level: str) -> None:
    may_add, may_remove = LEVELS[level]
    for subject, first, second, may in [
        ("adding", KIND, KIND_AND_PRICE, may_add),
        ("removing", KIND_AND_PRICE, KIND, may_remove),
    ]:
        registry.do(commands.set_config, subject, {"compatibility": level.lower()})
        registry.register(subject, first)
        if may:
            registry.register(subject, second)
        else:
            with refused(40901):
                registry.register(subject, second)


@pytest.mark.parametrize(("level", "may"), [("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)])
def test_only_transitive_levels_check_earlier_versions(
    registry: Registry, level: str, may: bool
) -> None:
    registry.do(commands.set_config, None, {"compatibility": level})
    registry.register("tea", record(field("a", "int")))
    registry.register("tea", record(field("b", "int", default=1)))
    third = record(field("a", "string", default=""))
    if may:
        registry.register("tea", third)
    else:
        with refused(40901):
            registry.register("tea", third)


def test_soft_deleted_version_is_hidden_but_found_by_id(registry: Registry) -> None:
    registry.register("tea", KIND)
    registry.register("tea", KIND_AND_GRAMS)
    assert registry.do(commands.delete_version, "tea", 2, permanent=False) == 2
    assert registry.numbers("tea") == [1]
    assert registry.numbers("tea", deleted=True) == [1, 2]
    assert queries.schema_by_id(registry.state, 2).version == 2
    with refused(40406):
        registry.do(commands.delete_version, "tea", 2, permanent=False)


def test_version_must_be_soft_deleted_before_permanent_deletion(registry: Registry) -> None:
    registry.register("tea", KIND)
    with refused(40407):
        registry.do(commands.delete_version, "tea", 1, permanent=True)
    registry.do(commands.delete_version, "tea", 1, permanent=False)
    registry.do(commands.delete_version, "tea", 1, permanent=True)
    assert registry.state.subjects == {}
    with refused(40403):
        queries.schema_by_id(registry.state, 1)


def test_schema_registered_again_keeps_its_id_and_gets_a_new_version(registry: Registry) -> None:
    registry.register("tea", KIND)
    registry.do(commands.delete_subject, "tea", permanent=False)
    assert registry.register("tea", KIND) == 1
    assert registry.numbers("tea", deleted=True) == [2]


def test_permanent_deletion_of_a_subject_removes_its_config_and_mode(
    registry: Registry,
) -> None:
    registry.register("tea", KIND)
    registry.register("tea", KIND_AND_GRAMS)
    registry.do(commands.set_config, "tea", {"compatibility": "FULL"})
    with refused(40405):
        registry.do(commands.delete_subject, "tea", permanent=True)
    assert registry.do(commands.delete_subject, "tea", permanent=False) == [1, 2]
    with refused(40404):
        registry.do(commands.delete_subject, "tea", permanent=False)
    assert registry.do(commands.delete_subject, "tea", permanent=True) == [1, 2]
    assert registry.state.configs == {}
    with refused(40401):
        registry.do(commands.delete_subject, "tea", permanent=True)


def test_ids_are_never_reused(registry: Registry) -> None:
    registry.register("tea", KIND)
    registry.do(commands.delete_subject, "tea", permanent=False)
    registry.do(commands.delete_subject, "tea", permanent=True)
    assert registry.register("tea", KIND_AND_GRAMS) == 2


LEAF = Reference(name="Leaf", subject="leaf", version=1)
WITH_LEAF = record(field("leaf", "Leaf"))


def test_schema_may_reference_types_of_other_subjects(registry: Registry) -> None:
    registry.register("leaf", record(field("size", "int"), name="Leaf"))
    assert registry.register("tea", WITH_LEAF, LEAF) == 2
    assert queries.referenced_by(registry.state, "leaf", 1) == [2]
    with refused(42206):
        registry.do(commands.delete_version, "leaf", 1, permanent=False)
    with refused(42206):
        registry.do(commands.delete_subject, "leaf", permanent=False)


def test_compatibility_check_includes_references(registry: Registry) -> None:
    registry.register("leaf", record(field("size", "int"), name="Leaf"))
    registry.register("tea", WITH_LEAF, LEAF)
    registry.do(commands.set_config, "leaf", {"compatibility": "NONE"})
    registry.register("leaf", record(field("size", "string"), name="Leaf"))
    with refused(40901):
        registry.register("tea", WITH_LEAF, Reference(name="Leaf", subject="leaf", version=2))


def test_unknown_reference_is_rejected(registry: Registry) -> None:
    with refused(42201):
        registry.register("tea", WITH_LEAF, LEAF)


def test_read_only_subject_rejects_writes(registry: Registry) -> None:
    registry.do(commands.set_mode, "tea", {"mode": "READONLY"}, force=False)
    with refused(42205):
        registry.register("tea", KIND)
    registry.register("coffee", KIND)
    with refused(42205):
        registry.do(commands.set_config, "tea", {"compatibility": "NONE"})
    assert registry.do(commands.delete_mode, "tea") == {"mode": "READONLY"}
    registry.register("tea", KIND)


def test_import_sets_ids_and_versions(registry: Registry) -> None:
    with refused(42205):
        registry.register("tea", KIND, id=7, version=3)
    registry.do(commands.set_mode, None, {"mode": "IMPORT"}, force=False)
    assert registry.register("tea", KIND, id=7, version=3) == 7
    assert registry.numbers("tea") == [3]
    with refused(42205):
        registry.register("tea", KIND_AND_PRICE, id=7, version=4)
    assert registry.register("cocoa", '"string"', id=3) == 3
    registry.do(commands.set_mode, None, {"mode": "READWRITE"}, force=False)
    assert registry.register("coffee", KIND_AND_GRAMS) == 8


def test_import_mode_is_rejected_if_subjects_exist(registry: Registry) -> None:
    registry.register("tea", KIND)
    with refused(42205):
        registry.do(commands.set_mode, None, {"mode": "IMPORT"}, force=False)


@pytest.mark.parametrize("subject", ["", " ", "a\nb", ":.context:tea", "x" * 3000])
def test_invalid_subject_is_rejected(registry: Registry, subject: str) -> None:
    with refused(42208):
        registry.register(subject, KIND)


def test_unknown_levels_modes_and_settings_are_rejected(registry: Registry) -> None:
    with refused(42203):
        registry.do(commands.set_config, None, {"compatibility": "SOMEHOW"})
    with refused(42203):
        registry.do(commands.set_config, None, {"alias": "tea"})
    with refused(42204):
        registry.do(commands.set_mode, None, {"mode": "SOMEHOW"}, force=False)


def test_normalizing_subject_recognizes_a_schema_in_any_order(registry: Registry) -> None:
    registry.do(commands.set_config, "tea", {"normalize": True})
    one = registry.register("tea", '{"type":"string","a":1,"b":2}')
    assert registry.register("tea", '{"b":2,"type":"string","a":1}') == one


def test_key_of_another_registry_is_written_with_its_bytes(registry: Registry) -> None:
    raw = b'{"keytype":"CONFIG","subject":null,"magic":0}'
    entry = read_entry(raw, b'{"compatibilityLevel":"FULL"}')
    assert entry is not None
    registry.state.apply(entry, raw)
    assert registry.state.level_of("tea") == "FULL"
    assert registry.state.raw_keys[ConfigKey(None)] == raw


def test_records_of_unknown_types_are_ignored() -> None:
    assert read_entry(b'{"keytype":"NOOP","magic":0}', None) is None
    assert read_entry(b'{"keytype":"ASSOC","magic":0}', b"{}") is None
    assert read_entry(None, b"{}") is None


def test_fields_of_another_registry_survive_soft_deletion(
    registry: Registry,
) -> None:
    raw = b'{"keytype":"SCHEMA","subject":"tea","version":1,"magic":1}'
    entry = read_entry(
        raw,
        b'{"subject":"tea","version":1,"id":1,"md5":"x","schema":"\\"string\\"","deleted":false}',
    )
    assert entry is not None
    registry.state.apply(entry, raw)
    registry.do(commands.delete_version, "tea", -1, permanent=False)
    assert registry.state.versions("tea", deleted=True)[0].others == {"md5": "x"}


def guid(content: bytes) -> str:
    return str(UUID(bytes=md5(content, usedforsecurity=False).digest()))


def test_guid_is_a_digest_of_the_schema_and_its_references(registry: Registry) -> None:
    registry.register("leaf", record(name="Leaf"))
    leaf = Reference(name="Leaf", subject="leaf", version=1)
    schema_id = registry.register("tea-value", record(field("leaf", "Leaf")), leaf)
    found = registry.state.schemas[schema_id]
    expected = guid(found.schema.encode() + b"Leaf" + b"leaf" + b"\0\0\0\1")
    assert guid_of(found) == expected
    assert queries.schema_by_guid(registry.state, expected.upper()) is found
    registry.do(commands.delete_subject, "tea-value", permanent=False)
    assert queries.schema_by_guid(registry.state, expected).id == schema_id
    registry.do(commands.delete_subject, "tea-value", permanent=True)
    with refused(40403) as told:
        queries.schema_by_guid(registry.state, expected)
    assert str(told.value) == f"Schema {expected} not found"


def test_metadata_of_another_registry_is_found(registry: Registry) -> None:
    for version, owner in ((1, "till"), (2, "alice")):
        key = b'{"keytype":"SCHEMA","subject":"tea","version":%d,"magic":1}' % version
        metadata = {"properties": {"owner": owner, "shop": "yes"}}
        text = json.dumps(json.loads(record(name=f"R{version}")), separators=(",", ":"))
        value = {"subject": "tea", "version": version, "id": version, "schema": text}
        entry = read_entry(key, json.dumps({**value, "metadata": metadata}).encode())
        assert entry is not None
        registry.state.apply(entry, key)

    def latest(**properties: str) -> int:
        return queries.latest_with_metadata(
            registry.state, "tea", properties, deleted=False
        ).version

    assert latest(shop="yes") == 2
    assert latest(shop="yes", owner="till") == 1
    assert guid_of(registry.state.schemas[1]) is None
    with refused(40403):
        latest(owner="bob")
    with refused(40401):
        queries.latest_with_metadata(registry.state, "none", {}, deleted=False)


def _object(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "additionalProperties": False})


TEXT = {"type": "string"}
JSON_KIND = _object(kind=TEXT)
JSON_KIND_AND_GRAMS = _object(kind=TEXT, grams={"type": "integer"})


def test_json_schema_is_returned_with_its_type_and_identified_by_its_text(
    registry: Registry,
) -> None:
    schema_id = registry.register("tea-value", JSON_KIND, schema_type="JSON")
    text = json.dumps(json.loads(JSON_KIND), separators=(",", ":"))
    assert queries.described(registry.state.versions("tea-value")[0]) == {
        "subject": "tea-value",
        "version": 1,
        "id": schema_id,
        "guid": guid(text.encode()),
        "schemaType": "JSON",
        "schema": text,
    }
    spaced = submitted(json.dumps(json.loads(JSON_KIND), indent=4), schema_type="JSON")
    again = commands.register(registry.state, "tea-value", spaced)
    assert again == commands.RegistryChange((), registry.state.schemas[schema_id])
    assert registry.register("coffee-value", JSON_KIND, schema_type="JSON") == schema_id


def test_same_text_of_another_type_is_a_different_schema(registry: Registry) -> None:
    avro = registry.register("tea-key", '{"type":"string"}')
    assert registry.register("tea-value", '{"type":"string"}', schema_type="JSON") != avro


@pytest.mark.parametrize("kind", ["THRIFT", "protobuf", "json", 3, ["JSON"], {"JSON": 1}])
def test_unsupported_schema_type_is_rejected(kind: Any) -> None:
    with refused(42201) as told:
        read_submitted({"schema": "{}", "schemaType": kind})
    assert str(told.value) == f"Invalid schema type {kind}"


def test_schema_type_may_only_change_with_level_none(registry: Registry) -> None:
    registry.register("tea-value", KIND)
    with refused(40901) as told:
        registry.register("tea-value", JSON_KIND, schema_type="JSON")
    assert "[Incompatible because of different schema type, " in str(told.value)
    registry.do(commands.set_config, "tea-value", {"compatibility": "NONE"})
    registry.register("tea-value", JSON_KIND, schema_type="JSON")
    assert registry.numbers("tea-value") == [1, 2]


PROTO_KIND = 'syntax = "proto3";\nmessage Tea {\n  string kind = 1;\n}\n'


def test_protobuf_schema_is_known_by_its_canonical_text(registry: Registry) -> None:
    schema_id = registry.register("tea-value", PROTO_KIND, schema_type="PROTOBUF")
    (version,) = registry.state.versions("tea-value")
    assert version.schema == 'syntax = "proto3";\n\nmessage Tea {\n  string kind = 1;\n}\n'
    spaced = "// Tea\n" + PROTO_KIND.replace("\n", " ").replace(" ", "  ")
    assert registry.register("other-value", spaced, schema_type="PROTOBUF") == schema_id
    descriptor = queries.schema_in_format(registry.state, version, "serialized")
    assert registry.register("third-value", descriptor, schema_type="PROTOBUF") == schema_id
    assert queries.schema_in_format(registry.state, version, "unknown") == version.schema


def test_protobuf_schema_imports_its_references(registry: Registry) -> None:
    leaf = 'syntax = "proto3"; package leaves; message Leaf { int32 size = 1; }'
    registry.register("leaf", leaf, schema_type="PROTOBUF")
    text = 'syntax = "proto3"; import "leaf.proto"; message Tea { leaves.Leaf leaf = 1; }'
    with refused(42201) as told:
        registry.register("tea-value", text, schema_type="PROTOBUF")
    assert 'no reference for the import "leaf.proto"' in str(told.value)
    reference = Reference(name="leaf.proto", subject="leaf", version=1)
    registry.register("tea-value", text, reference, schema_type="PROTOBUF")
    registry.register("leaf", leaf.replace("size", "width"), schema_type="PROTOBUF")
    with refused(42206):
        registry.do(commands.delete_version, "leaf", 1, permanent=False)


PROTOBUF_LEVELS = {
    # Whether a field of a oneof may be added, and then be removed again.
    "NONE": (True, True),
    "BACKWARD": (True, False),
    "BACKWARD_TRANSITIVE": (True, False),
    "FORWARD": (False, True),
    "FORWARD_TRANSITIVE": (False, True),
    "FULL": (False, False),
    "FULL_TRANSITIVE": (False, False),
}


@pytest.mark.parametrize(("level", "allowed"), PROTOBUF_LEVELS.items())
def test_protobuf_compatibility_levels(level: str, allowed: tuple[bool, bool]) -> None:
    one = 'syntax = "proto3"; message Tea { oneof x { int32 a = 1; } }'
    two = one.replace("a = 1;", "a = 1; int32 b = 2;")
    for (old, new), is_allowed in zip(((one, two), (two, one)), allowed, strict=True):
        registry = Registry()
        registry.register("tea-value", old, schema_type="PROTOBUF")
        registry.do(commands.set_config, "tea-value", {"compatibility": level})
        if is_allowed:
            registry.register("tea-value", new, schema_type="PROTOBUF")
        else:
            with refused(40901) as told:
                registry.register("tea-value", new, schema_type="PROTOBUF")
            assert "ONEOF_FIELD_REMOVED" in str(told.value)


def test_transitive_level_compares_protobuf_with_every_version(registry: Registry) -> None:
    one = 'syntax = "proto3"; message Tea { int32 a = 1; }'
    none = 'syntax = "proto3"; message Tea { }'
    other = 'syntax = "proto3"; message Tea { string a = 1; }'
    registry.register("tea-value", one, schema_type="PROTOBUF")
    registry.register("tea-value", none, schema_type="PROTOBUF")
    registry.do(commands.set_config, "tea-value", {"compatibility": "BACKWARD_TRANSITIVE"})
    with refused(40901) as told:
        registry.register("tea-value", other, schema_type="PROTOBUF")
    assert "oldSchemaVersion: 1" in str(told.value)
    registry.do(commands.set_config, "tea-value", {"compatibility": "BACKWARD"})
    registry.register("tea-value", other, schema_type="PROTOBUF")


JSON_LEVELS = {
    # Whether a closed object may gain a property, and then lose it again.
    "NONE": (True, True),
    "BACKWARD": (True, False),
    "FORWARD": (False, True),
    "FULL": (False, False),
}


@pytest.mark.parametrize("suffix", ["", "_TRANSITIVE"])
@pytest.mark.parametrize("level", JSON_LEVELS)
def test_each_level_checks_its_own_direction_for_json_too(
    registry: Registry, level: str, suffix: str
) -> None:
    name = level if level == "NONE" else f"{level}{suffix}"
    registry.do(commands.set_config, None, {"compatibility": name})
    for subject, first, second, may in (
        ("more", JSON_KIND, JSON_KIND_AND_GRAMS, JSON_LEVELS[level][0]),
        ("less", JSON_KIND_AND_GRAMS, JSON_KIND, JSON_LEVELS[level][1]),
    ):
        registry.register(subject, first, schema_type="JSON")
        given = submitted(second, schema_type="JSON")
        answer = queries.compatibility_response(
            registry.state, subject, -1, given, normalize=False, verbose=True
        )
        assert answer["is_compatible"] is may
        assert bool(answer["messages"]) is not may
        if not may:
            with refused(40901):
                registry.register(subject, second, schema_type="JSON")


def test_only_transitive_levels_check_earlier_json_versions(
    registry: Registry,
) -> None:
    wide, narrow = json.dumps({"type": ["string", "null"]}), json.dumps(TEXT)
    registry.register("tea-value", wide, schema_type="JSON")
    registry.do(commands.set_config, "tea-value", {"compatibility": "NONE"})
    registry.register("tea-value", narrow, schema_type="JSON")
    longer = submitted(json.dumps({**TEXT, "title": "T"}), schema_type="JSON")
    registry.do(commands.set_config, "tea-value", {"compatibility": "BACKWARD"})
    assert commands.register(registry.state, "tea-value", longer).entries
    registry.do(commands.set_config, "tea-value", {"compatibility": "BACKWARD_TRANSITIVE"})
    with refused(40901) as told:
        commands.register(registry.state, "tea-value", longer)
    assert (
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#\' is different between the new '
        "schema and the old schema'"
    ) in str(told.value)
    assert "{oldSchemaVersion: 1}" in str(told.value)


def test_json_schema_is_compared_with_its_references(registry: Registry) -> None:
    registry.register("leaf", _object(size={"type": "integer"}), schema_type="JSON")
    registry.register("leaf", _object(size={"type": "number"}), schema_type="JSON")
    outer = _object(leaf={"$ref": "leaf.json"})
    first = Reference(name="leaf.json", subject="leaf", version=1)
    second = Reference(name="leaf.json", subject="leaf", version=2)
    with refused(42201) as told:
        registry.register("tea-value", outer, schema_type="JSON")
    assert '"leaf.json" is not found' in str(told.value)
    registry.register("tea-value", outer, second, schema_type="JSON")
    with refused(40901) as told:
        registry.register("tea-value", outer, first, schema_type="JSON")
    assert "TYPE_NARROWED" in str(told.value)
    assert "'#/properties/leaf/properties/size'" in str(told.value)
    with refused(42206):
        registry.do(commands.delete_subject, "leaf", permanent=False)


def test_reference_to_a_schema_of_another_type_is_rejected(registry: Registry) -> None:
    registry.register("leaf", KIND)
    leaf = Reference(name="leaf.json", subject="leaf", version=1)
    with refused(42201) as told:
        registry.register("tea-value", '{"$ref":"leaf.json"}', leaf, schema_type="JSON")
    assert "is a schema of type AVRO" in str(told.value)


def test_normalized_json_schema_ignores_the_order_of_keys_and_references(
    registry: Registry,
) -> None:
    one, two = (Reference(name=name, subject=name, version=1) for name in ("a.json", "b.json"))
    for each in (one, two):
        registry.register(each.subject, _object(), schema_type="JSON")
    registry.do(commands.set_config, None, {"compatibility": "NONE", "normalize": True})
    schema = {"anyOf": [{"$ref": "a.json"}, {"$ref": "b.json"}], "title": "T"}
    turned = json.dumps({key: schema[key] for key in reversed(schema)})
    first = registry.register("tea", json.dumps(schema), one, two, schema_type="JSON")
    assert registry.register("tea", turned, two, one, two, schema_type="JSON") == first


def test_unparsable_version_of_another_registry_is_named_in_the_error(
    registry: Registry,
) -> None:
    key = b'{"keytype":"SCHEMA","subject":"tea","version":1,"magic":1}'
    elsewhere = json.dumps({"$ref": "https://tea.shop/leaf.json"})
    value = {"subject": "tea", "version": 1, "id": 7, "schemaType": "JSON", "schema": elsewhere}
    entry = read_entry(key, json.dumps(value).encode())
    assert entry is not None
    registry.state.apply(entry, key)
    with refused(40901) as told:
        registry.register("tea", json.dumps(TEXT), schema_type="JSON")
    assert "Version 1 cannot be parsed" in str(told.value)


def test_json_schema_of_confluents_registry_keeps_its_id(
    registry: Registry,
) -> None:
    key = b'{"keytype":"SCHEMA","subject":"tea","version":3,"magic":1}'
    text = '{"type":"number","maximum":1.50}'
    value = {"subject": "tea", "version": 3, "id": 7, "schemaType": "JSON", "schema": text}
    entry = read_entry(key, json.dumps({**value, "deleted": False}).encode())
    assert entry is not None
    registry.state.apply(entry, key)
    assert registry.register("tea", text.replace(",", " , "), schema_type="JSON") == 7
    assert registry.register("other", text, schema_type="JSON") == 7
    assert registry.numbers("tea") == [3]
