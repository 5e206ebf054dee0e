"""Texts that are rejected, and where; hostile texts end soon."""

import contextlib
import time

import pytest

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf import tokens
from headwater.schemas.protobuf.parser import parse
from headwater.schemas.protobuf.schema_reader import read_schema
from tests.unit.schemas.protobuf.protoc import compiled

HEAD = 'syntax = "proto3";\n'
WRONG_TEXTS = {
    "no type": HEAD + "message A { a = 1; }",
    "no number": HEAD + "message A { int32 a; }",
    "number is a word": HEAD + "message A { int32 a = one; }",
    "number is a fraction": HEAD + "message A { int32 a = 1.5; }",
    "number is too large": HEAD + "message A { int32 a = 99999999999; }",
    "not closed": HEAD + "message A { int32 a = 1;",
    "closed twice": HEAD + "message A { int32 a = 1; } }",
    "comment not closed": HEAD + "/* message A {}",
    "string not closed": 'syntax = "proto3;\n',
    "strange character": HEAD + "message A { int32 ä = 1; }",
    "syntax is unknown": 'syntax = "proto4";',
    "syntax comes late": 'package a; syntax = "proto3";',
    "edition is unknown": 'edition = "1999";',
    "required in proto3": HEAD + "message A { required int32 a = 1; }",
    "no label in proto2": "message A { int32 a = 1; }",
    "label of a map": HEAD + "message A { repeated map<string, int32> a = 1; }",
    "label in a oneof": HEAD + "message A { oneof x { repeated int32 a = 1; } }",
    "oneof in a oneof": HEAD + "message A { oneof x { oneof y { int32 a = 1; } } }",
    "name with dots": HEAD + "message A.B { }",
    "statement outside": HEAD + "int32 a = 1;",
    "option without value": HEAD + "message A { int32 a = 1 [deprecated]; }",
    "group in lower case": "message A { optional group a = 1 {} }",
    "bad escape": HEAD + r'message A { int32 a = 1 [json_name = "\xzz"]; }',
}
WRONG_SCHEMAS = {
    "unknown type": HEAD + "message A { B b = 1; }",
    "type of a file that is not imported": HEAD + "message A { google.protobuf.Any a = 1; }",
    "unknown import": HEAD + 'import "b.proto";',
    "number twice": HEAD + "message A { int32 a = 1; int32 b = 1; }",
    "number twice through a oneof": HEAD + "message A { int32 a = 1; oneof x { int32 b = 1; } }",
    "name twice": HEAD + "message A { int32 a = 1; int32 a = 2; }",
    "message twice": HEAD + "message A {} message A {}",
    "message and enum": HEAD + "message A {} enum A { X = 0; }",
    "enum values are beside their enum": HEAD + "enum A { X = 0; } enum B { X = 0; }",
    "number zero": HEAD + "message A { int32 a = 0; }",
    "number of the runtime": HEAD + "message A { int32 a = 19500; }",
    "number beyond the last": HEAD + "message A { int32 a = 536870912; }",
    "reserved number": HEAD + "message A { reserved 1 to 3; int32 a = 2; }",
    "reserved name": HEAD + 'message A { reserved "a"; int32 a = 2; }',
    "reserved twice": HEAD + "message A { reserved 1 to 3, 2; }",
    "range backwards": HEAD + "message A { reserved 3 to 1; }",
    "empty oneof": HEAD + "message A { oneof x { } }",
    "empty enum": HEAD + "enum A { }",
    "enum without zero": HEAD + "enum A { X = 1; }",
    "alias": HEAD + "enum A { X = 0; Y = 0; }",
    "reserved enum number": HEAD + "enum A { X = 0; Y = 5; reserved 5; }",
    "key of a map": HEAD + "message A { map<double, int32> a = 1; }",
    "default in proto3": HEAD + "message A { int32 a = 1 [default = 3]; }",
    "extensions in proto3": HEAD + "message A { extensions 5; }",
    "extended in proto3": HEAD + "message A { } extend A { int32 a = 5; }",
    "unknown enum value": "message A { optional E e = 1 [default = Y]; } enum E { X = 0; }",
    "number of an extension": "message A { extensions 1 to 5; optional int32 a = 3; }",
    "rpc with an enum": HEAD + "enum E { X = 0; } service S { rpc A (E) returns (E); }",
    "entry of a map has its name": HEAD
    + "message A { map<int32, int32> a = 1; message AEntry {} }",
}


@pytest.mark.parametrize("text", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_malformed_text_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSchema, match=r"Could not parse Protobuf - Syntax error in :\d+:"):
        parse(text)


@pytest.mark.parametrize("text", WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS)
def test_invalid_schema_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSchema, match="Invalid schema of type PROTOBUF, details: "):
        read_schema(text)


WRONG = {**WRONG_TEXTS, **WRONG_SCHEMAS}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_protoc_rejects_it_as_well(text: str) -> None:
    assert compiled(text) is None


def test_errors_name_line_and_column() -> None:
    with pytest.raises(InvalidSchema) as told:
        parse('syntax = "proto3";\nmessage A {\n  int32 a 1;\n}')
    assert str(told.value) == (
        "Invalid schema of type PROTOBUF, details: Could not parse Protobuf - Syntax error in "
        ":3:11: expected '=', found '1'"
    )


HOSTILE = {
    "nested messages": HEAD + "message A {" * 50_000,
    "nested groups": "message A {" + "optional group A = 1 {" * 30_000,
    "nested values": HEAD + "option (a) = " + "{a: " * 50_000,
    "nested lists": HEAD + "option (a) = " + "[" * 900_000,
    "brackets": "[" * 999_000,
    "quotes": '"' * 999_999,
    "open string": '"' + "\\a" * 400_000,
    "open comment": "/*" + "*" * 999_000,
    "comments": "/**/" * 50_000,
    "strings": HEAD + "option a = " + '"a" ' * 50_000,
    "dots": HEAD + "message A { " + "a." * 400_000,
    "digits": HEAD + "message A { int32 a = " + "9" * 900_000,
    "values of one key": HEAD + "option (a) = {" + "a:1 " * 50_000 + "};",
    "ranges": HEAD + "message A { reserved " + "1," * 50_000 + "1; }",
    "one name": HEAD + "message " + "a" * 900_000 + " {}",
    "too long": " " * 1_000_001,
    "fields of one type": HEAD + "message A {" + "A a = 1;" * 25_000 + "}",
    "imports": HEAD + 'import "a";' * 20_000,
    "surrogates": HEAD + "\ud800",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_ends_soon(text: str) -> None:
    """Quadratic work would take many minutes here, so the bound need not be exact."""
    started = time.process_time()
    with contextlib.suppress(InvalidSchema):
        read_schema(text)
    assert time.process_time() - started < 30


def test_depth_of_messages_is_limited_as_in_protoc() -> None:
    deep = "message A {" * tokens.DEPTH_MAX + "}" * tokens.DEPTH_MAX
    parse(HEAD + deep)
    with pytest.raises(InvalidSchema, match="nested more than 32 levels"):
        parse(HEAD + "message A {" + deep + "}")
