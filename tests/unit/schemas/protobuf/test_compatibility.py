"""Compatibility of Protobuf schemas by Confluent's rules.

The results are those of `SchemaDiff` in Confluent's kafka-protobuf-provider, read in its source:
54 pairs of its own tests gave the same kinds and paths when this table was written.
"""

import pytest

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf import compatibility
from headwater.schemas.protobuf.compatibility import unreadable
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.schemas.protobuf.schema_reader import read_schema

PROTO3 = 'syntax = "proto3"; '


def message(body: str) -> str:
    return f"{PROTO3}message A {{ {body} }}"


def proto2(body: str) -> str:
    return f"message A {{ {body} }}"


def found(old: str, new: str) -> list[str]:
    return [
        f"{each.kind} {each.path}"
        for each in unreadable(reader=read_schema(new), writer=read_schema(old))
    ]


NUMBERS = ("int32", "int64", "uint32", "uint64", "bool", "E")
GROUPS = (
    NUMBERS,
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)
SCALARS = [(kind, number) for number, kinds in enumerate(GROUPS) for kind in kinds]
ONEOF = "oneof x { int32 a = 1; string b = 2; }"

COMPATIBLE = {
    "the same": (message("int32 a = 1;"), message("int32 a = 1;")),
    "field added": (message(""), message("int32 a = 1;")),
    "field removed": (message("int32 a = 1;"), message("")),
    "field renamed": (message("int32 a = 1;"), message("int32 b = 1;")),
    "fields in another order": (
        message("int32 a = 1; string b = 2;"),
        message("string b = 2; int32 a = 1;"),
    ),
    "message added": (PROTO3, message("")),
    "messages in another order": (
        PROTO3 + "message A {} message B {}",
        PROTO3 + "message B {} message A {}",
    ),
    "enum removed": (PROTO3 + "enum E { X = 0; }", PROTO3),
    "enum value removed, added, renamed": (
        PROTO3 + "enum E { X = 0; Y = 1; }",
        PROTO3 + "enum E { Z = 0; W = 2; }",
    ),
    "presence": (message("int32 a = 1;"), message("optional int32 a = 1;")),
    # Confluent's rules compare only labels that are written.
    "singular becomes repeated in proto3": (
        message("int32 a = 1;"),
        message("repeated int32 a = 1;"),
    ),
    "label of strings": (proto2("optional string a = 1;"), proto2("repeated bytes a = 1;")),
    "label of messages": (proto2("optional A a = 1;"), proto2("repeated A a = 1;")),
    "field moved to a new oneof": (message("int32 a = 1;"), message(ONEOF)),
    "field leaves a oneof": (message(ONEOF), message("int32 a = 1; oneof x { string b = 2; }")),
    "oneof renamed": (message(ONEOF), message(ONEOF.replace("x", "y"))),
    "oneof removed with all its fields": (message(ONEOF), message("")),
    "oneof dissolved": (message(ONEOF), message("int32 a = 1; string b = 2;")),
    "field added to a oneof": (message(ONEOF), message(ONEOF[:-1] + "int32 c = 3; }")),
    "map written as its entries": (
        message("map<string, int32> a = 1;"),
        message(
            "repeated AEntry a = 1; message AEntry { option map_entry = true; "
            "string key = 1; int32 value = 2; }"
        ),
    ),
    "type named in another way": (
        PROTO3 + "package p; message A { B b = 1; } message B {}",
        PROTO3 + "package p; message A { .p.B b = 1; } message B {}",
    ),
    "recursive messages": (message("A a = 1;"), message("A a = 1; int32 b = 2;")),
    "defaults": (
        proto2("optional int32 a = 1 [default = 1];"),
        proto2("optional int32 a = 1 [default = 2];"),
    ),
}
INCOMPATIBLE = {
    "package": (PROTO3 + "package a;", PROTO3 + "package b;", ["PACKAGE_CHANGED #/"]),
    "message removed": (message(""), PROTO3, ["MESSAGE_REMOVED #/A"]),
    "nested message removed": (message("message B {}"), message(""), ["MESSAGE_REMOVED #/A/B"]),
    "message becomes a scalar": (
        message("A a = 1;"),
        message("int32 a = 1;"),
        ["FIELD_KIND_CHANGED #/A/1"],
    ),
    "map becomes a message": (
        message("map<string, int32> a = 1;"),
        message("repeated B a = 1; message B { string key = 1; int32 value = 2; }"),
        ["FIELD_KIND_CHANGED #/A/1"],
    ),
    "values of a map": (
        message("map<string, int32> a = 1;"),
        message("map<string, string> a = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
    ),
    "keys of a map": (
        message("map<string, int32> a = 1;"),
        message("map<int32, int32> a = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
    ),
    "another message": (
        message("B a = 1; message B {} message C {}"),
        message("C a = 1; message B {} message C {}"),
        ["FIELD_NAMED_TYPE_CHANGED #/A/1"],
    ),
    "field of a nested message": (
        message("B b = 1; message B { int32 a = 1; }"),
        message("B b = 1; message B { string a = 1; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/A/B/1"],
    ),
    "label of numbers": (
        proto2("optional int32 a = 1;"),
        proto2("repeated int32 a = 1;"),
        ["FIELD_NUMERIC_LABEL_CHANGED #/A/1"],
    ),
    "required added": (proto2(""), proto2("required A a = 1;"), ["REQUIRED_FIELD_ADDED #/A/1"]),
    "required removed": (proto2("required A a = 1;"), proto2(""), ["REQUIRED_FIELD_REMOVED #/A/1"]),
    "field of a oneof removed": (
        message(ONEOF),
        message("oneof x { int32 a = 1; }"),
        ["ONEOF_FIELD_REMOVED #/A/x/2"],
    ),
    "fields move to a oneof": (
        message("int32 a = 1; string b = 2;"),
        message(ONEOF),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/x"],
    ),
    "field moves to an existing oneof": (
        message("int32 a = 1; oneof x { string b = 2; }"),
        message(ONEOF),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/A/x"],
    ),
    "oneofs merge": (
        message("oneof x { int32 a = 1; } oneof y { string b = 2; }"),
        message(ONEOF),
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/A/x"],
    ),
    "type in a oneof": (
        message(ONEOF),
        message("oneof x { string a = 1; string b = 2; }"),
        ["FIELD_SCALAR_KIND_CHANGED #/A/x/1"],
    ),
    "number used again": (
        message("int32 a = 1;"),
        message("string b = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
    ),
}


@pytest.mark.parametrize(("old", "new"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_compatible_changes(old: str, new: str) -> None:
    assert found(old, new) == []


@pytest.mark.parametrize(("old", "new", "wanted"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_incompatible_changes(old: str, new: str, wanted: list[str]) -> None:
    assert found(old, new) == wanted


def test_scalars_replace_each_other_within_their_wire_type() -> None:
    enum = "enum E { X = 0; }"
    for old, old_group in SCALARS:
        for new, new_group in SCALARS:
            changes = found(message(f"{enum} {old} a = 1;"), message(f"{enum} {new} a = 1;"))
            expected = [] if old_group == new_group else ["FIELD_SCALAR_KIND_CHANGED #/A/1"]
            assert changes == expected, (old, new)


def importing(imported: str, name: str = "b.proto") -> ProtobufSchema:
    text = f'{PROTO3} package a; import "{name}"; message A {{ b.B b = 1; }}'
    return read_schema(text, [(name, f"{PROTO3} package b; {imported}")])


def test_imported_messages_are_compared_where_they_are_used() -> None:
    old = importing("message B { int32 a = 1; C c = 2; } message C { int32 a = 1; }")
    same = importing("message B { int32 z = 1; C c = 2; } message C { int64 a = 1; }", "c.proto")
    assert unreadable(reader=same, writer=old) == []
    new = importing("message B { int32 a = 1; C c = 2; } message C { string a = 1; }")
    assert [f"{each.kind} {each.path}" for each in unreadable(reader=new, writer=old)] == [
        "FIELD_SCALAR_KIND_CHANGED #/C/1",
        "FIELD_NAMED_TYPE_CHANGED #/B/2",
        "FIELD_NAMED_TYPE_CHANGED #/A/1",
    ]


def test_message_may_move_to_an_imported_file() -> None:
    old = read_schema(PROTO3 + "package a; message A { B b = 1; } message B { int32 a = 1; }")
    text = PROTO3 + 'package a; import "b.proto"; message A { b.B b = 1; } message B {}'
    new = read_schema(text, [("b.proto", PROTO3 + "package b; message B { int64 a = 1; }")])
    assert unreadable(reader=new, writer=old) == []


def test_descriptions_are_confluents_sentences() -> None:
    old, new = read_schema(message("int32 a = 1;")), read_schema(message("string a = 1;"))
    (change,) = unreadable(reader=new, writer=old)
    assert change.described(reader="new", writer="old") == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path '
        "'#/A/1' in the new schema does not match its kind in the old schema\"}"
    )


def test_comparison_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "STEPS_MAX", 10)
    text = message(" ".join(f"int32 a{number} = {number};" for number in range(1, 20)))
    with pytest.raises(InvalidSchema, match="too large to compare"):
        unreadable(reader=read_schema(text), writer=read_schema(text))
