"""Descriptors from our parser are those of protoc; the runtime loads them."""

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf.canonical_form import canonical
from headwater.schemas.protobuf.descriptors import file_descriptor, file_descriptors, serialized
from headwater.schemas.protobuf.resolution import MAIN, ProtobufSchema
from headwater.schemas.protobuf.schema_reader import read_file, read_schema
from headwater.schemas.protobuf.well_known import well_known_file, well_known_names
from tests.unit.schemas.protobuf.protoc import compiled, without_json_names

EVERYTHING_3 = """
/* A tea
   shop. */
syntax = "proto3";
package shop.v1;  // The package.
import "google/protobuf/timestamp.proto";
import public "google/protobuf/duration.proto";
option java_package = "com.shop";
option optimize_for = SPEED;
option java_multiple_files = true;
message Tea {
  reserved 50, 60 to 70, 1000 to max;
  reserved "colour", "smell";
  option deprecated = true;
  string name = 1 [json_name = "teaName"];
  bytes raw = 2; bool is_green = 3; double price = 4; float weight = 5;
  int32 a = 6; int64 b = 7; uint32 c = 8; uint64 d = 9; sint32 e = 10; sint64 f = 11;
  fixed32 g = 12; fixed64 h = 13; sfixed32 i = 14; sfixed64 j = 15;
  repeated Leaf leaves = 16 [deprecated = true];
  repeated int32 numbers = 17 [packed = false];
  optional int32 grams = 18;
  optional .shop.v1.Kind kind = 19;
  oneof origin { string country = 20; Garden garden = 21; }
  oneof other { bool x = 0x20; }
  google.protobuf.Timestamp picked = 22;
  google.protobuf.Duration brewing = 23;
  Kind another = 26;
  Leaf.Size size = 27;
  message Leaf {
    enum Size { SMALL = 0; LARGE = -1; }
    Size size = 1;
    message Vein { Leaf parent = 1; Tea tea = 2; }
    repeated Vein veins = 2;
  };
  message Garden { v1.Tea best = 1; }
}
enum Kind {
  option allow_alias = true;
  reserved 5, 7 to 9, 100 to max; reserved "OLD";
  UNKNOWN = 0; NONE = 0; GREEN = 1 [deprecated = true]; BLACK = 0x2;
}
service Shop {
  option deprecated = true;
  rpc Buy (Tea) returns (stream shop.v1.Tea);
  rpc Sell (stream Tea) returns (Tea) { option idempotency_level = IDEMPOTENT; }
}
"""
EVERYTHING_2 = r"""
package shop;
message Tea {
  required string name = 1 [default = "gr\"een\n\t\\ \x41 \101"];
  optional int32 grams = 2 [default = -5];
  optional double price = 3 [default = -inf];
  optional float weight = 4 [default = 1.5];
  optional Kind kind = 5 [default = BLACK];
  optional bool is_green = 6 [default = true];
  optional bytes raw = 7 [default = "\001\xffa"];
  oneof origin { string country = 9; group Garden = 10 { optional int64 id = 1; } }
  extensions 100 to 199, 500;
  extensions 1000 to max;
  extend Tea { optional string nick = 100; }
  optional string text = 11 [ctype = CORD, jstype = JS_NORMAL, deprecated = false];
  optional string split = 12 [default = "one " 'two'];
  optional fixed64 big = 13 [default = 0xFF];
  repeated group Leaf = 8 { optional int32 size = 1; required string color = 2; }
}
enum Kind { GREEN = 1; BLACK = 2; }
extend Tea { repeated int32 more = 101; optional Tea inner = 102; }
"""
EDITION = """
edition = "2023";
package shop;
option features.field_presence = IMPLICIT;
message Tea {
  string name = 1 [features.field_presence = EXPLICIT];
  repeated int32 numbers = 2 [features.repeated_field_encoding = EXPANDED];
  reserved old, older;
}
"""


def linked(text: str) -> ProtobufSchema:
    return read_schema(text)


def ours(text: str) -> FileDescriptorProto:
    found: FileDescriptorProto = file_descriptor(linked(text), MAIN, "main.proto")
    return found


def load(files: list[Any]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    return pool


@pytest.mark.parametrize("text", [EVERYTHING_3, EVERYTHING_2, EDITION])
def test_descriptors_are_those_of_protoc(text: str) -> None:
    theirs = compiled(text)
    assert theirs is not None
    assert without_json_names(ours(text)) == without_json_names(ordered(theirs))


@pytest.mark.parametrize("text", [EVERYTHING_3, EVERYTHING_2, EDITION])
def test_text_of_a_descriptor_stands_for_the_same_descriptor(text: str) -> None:
    descriptor = ours(text)
    file = read_file(base64.b64encode(descriptor.SerializeToString()).decode())
    again = linked(canonical(file))
    assert without_json_names(file_descriptor(again, MAIN, "main.proto")) == without_json_names(
        descriptor
    )


def ordered(file: FileDescriptorProto) -> FileDescriptorProto:
    """Fields of oneofs after the others, which is how the tree keeps them."""
    waiting: list[Any] = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        fields = sorted(
            message.field,
            key=lambda each: (
                -1 if each.proto3_optional or not each.HasField("oneof_index") else each.oneof_index
            ),
        )
        copies = [type(each).FromString(each.SerializeToString()) for each in fields]
        del message.field[:]
        message.field.extend(copies)
    return file


def test_maps_become_messages_after_the_nested_ones() -> None:
    """Positions of messages are part of the wire format: those of the text must not move."""
    text = 'syntax = "proto3"; message A { map<string, B> some_Tea2_by_name = 1; message B {} }'
    (message,) = ours(text).message_type
    assert [each.name for each in message.nested_type] == ["B", "SomeTea2ByNameEntry"]
    theirs = compiled(text)
    assert theirs is not None
    assert {each.name for each in theirs.message_type[0].nested_type} == {
        "B",
        "SomeTea2ByNameEntry",
    }
    pool = load(file_descriptors(linked(text), "main.proto"))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("A"))
    made: Any = kind()
    made.some_Tea2_by_name["x"].SetInParent()
    assert kind.FromString(made.SerializeToString()) == made


def test_custom_options_are_kept_in_the_text_and_left_out_of_the_descriptor() -> None:
    text = """
    syntax = "proto3";
    import "google/protobuf/descriptor.proto";
    import "confluent/meta.proto";
    extend google.protobuf.FieldOptions { string owner = 50000; }
    message A { string a = 1 [(owner) = "me", (confluent.field_meta) = {tags: ["PII"]}]; }
    """
    schema = linked(text)
    assert '(owner) = "me"' in canonical(schema.file)
    assert not ours(text).message_type[0].field[0].HasField("options")
    load(file_descriptors(schema, "main.proto"))


@pytest.mark.parametrize("name", well_known_names())
def test_well_known_files_are_googles_and_confluents(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}";'
    files = file_descriptors(linked(text), "main.proto")
    load(files)
    module = pytest.importorskip(
        name.removesuffix(".proto").replace("/", ".") + "_pb2"
        if name.startswith("google")
        else f"confluent_kafka.schema_registry.{name.removesuffix('.proto').replace('/', '.')}_pb2"
    )
    theirs = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    mine = files[-2]
    for each in (theirs, mine):
        each.ClearField("options")
    assert str(mine) == str(ordered(theirs))


def test_well_known_file_is_not_found_under_another_name() -> None:
    assert well_known_file("google/protobuf/../any.proto") is None
    assert well_known_file("any.proto") is None


def test_serialized_schema_is_the_descriptor_in_base64() -> None:
    schema = linked('syntax = "proto3"; message A { string a = 1; }')
    found = FileDescriptorProto.FromString(base64.b64decode(serialized(schema)))
    assert (found.name, found.message_type[0].name) == ("default", "A")


@pytest.mark.parametrize("text", ["", "CgA", "!!!!", "CgA=CgA=", "message"])
def test_base64_of_something_else_is_not_a_schema(text: str) -> None:
    if text:
        with pytest.raises(InvalidSchema):
            read_file(text)
    else:
        assert canonical(read_file(text)) == ""
