"""The text by which a schema is known: that of Confluent's registry."""

from textwrap import dedent

import pytest

from headwater.schemas.protobuf.canonical_form import canonical
from headwater.schemas.protobuf.normalized_form import normalized
from headwater.schemas.protobuf.parser import parse
from headwater.schemas.protobuf.schema_reader import read_schema

WRITTEN = """
// Comments are dropped.
syntax = 'proto3'; package shop;
enum Kind { NONE = 0; GREEN = 1 [deprecated=true, (x) = 1]; }
message Empty { }
message Tea {
  message Leaf { int32 size = 1; reserved 5 to 5; message Vein { bool a=1; } Vein vein = 2; }
  oneof price { option (y) = true; double euros = 4; int64 cents = 5; }
  Leaf leaf = 1 [json_name="l"]; option (my.opt).a.(b.c) = {k: "v" list: [1, 2] n { e: E }};
  reserved "old"; reserved 9, 20 to max;
  map < string , Kind > kinds = 3;
}
import "b.proto"; import public "a.proto"; option java_package = "it's";
extend google.protobuf.FieldOptions { optional int32 x = 5000; }
service Shop { rpc Buy(Tea) returns(stream Tea); }
"""
PRINTED = """\
syntax = "proto3";
package shop;

import "b.proto";
import public "a.proto";

option java_package = "it\\'s";

message Empty {}
message Tea {
  reserved "old";
  reserved 9, 20 to max;

  option (my.opt).a.(b.c) = {
    k: "v",
    list: [
      1,
      2
    ],
    n: {
      e: E
    }
  };

  Leaf leaf = 1 [json_name = "l"];
  map<string, Kind> kinds = 3;

  oneof price {
    option (y) = true;

    double euros = 4;
    int64 cents = 5;
  }

  message Leaf {
    reserved 5 to 5;

    int32 size = 1;
    Vein vein = 2;

    message Vein {
      bool a = 1;
    }
  }
}
enum Kind {
  NONE = 0;
  GREEN = 1 [
    deprecated = true,
    (x) = 1
  ];
}

extend google.protobuf.FieldOptions {
  optional int32 x = 5000;
}

service Shop {
  rpc Buy (Tea) returns (stream Tea);
}
"""


def test_text_is_confluents() -> None:
    found = canonical(parse(WRITTEN))
    # In nested blocks, blank lines are indented like the block that they are in.
    assert found.count("\n  \n") == 2 + 1
    assert found.replace("\n  \n", "\n\n") == PRINTED
    assert canonical(parse(found)) == found


def test_text_without_syntax_begins_with_a_blank_line() -> None:
    assert canonical(parse("message A{optional int32 a=1;}")) == dedent("""
        message A {
          optional int32 a = 1;
        }
        """)


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; package p; message A { B b = 1; string c = 2; message B {} }',
        'syntax="proto3";package p;message A{string c=2;.p.A.B b=1;message B{}}',
        'syntax="proto3";package p;message A{p.A.B b=1; string c=2;message B{}}',
    ],
)
def test_normalized_text_is_the_same_for_the_same_meaning(text: str) -> None:
    found = normalized(read_schema(text))
    assert found.replace("\n  \n", "\n\n") == dedent("""\
        syntax = "proto3";
        package p;

        message A {
          .p.A.B b = 1;
          string c = 2;

          message B {}
        }
        """)


def test_normalized_text_orders_everything_but_messages() -> None:
    text = """
    syntax = "proto2";
    import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
    option php_namespace = "b"; option java_package = "a";
    message Z { extensions 9, 7 to 7; reserved "bb", "aa", 30, 20 to 25;
      oneof y { int32 d = 5; int32 c = 4; } oneof x { int32 b = 3; }
      optional int32 m = 2 [json_name = "k", deprecated = true, default = 7];
      optional google.protobuf.Any n = 1; }
    message A { repeated MEntry m = 1; message MEntry { option map_entry = true;
      optional string key = 1; optional Z value = 2; } }
    enum E { V = 1; U = 0; reserved 4 to 4; }
    """
    found = normalized(read_schema(text))
    assert found.replace("\n  \n", "\n\n") == dedent("""
        import "google/protobuf/any.proto";
        import "google/protobuf/timestamp.proto";

        option java_package = "a";
        option php_namespace = "b";

        message Z {
          reserved 20 to 25;
          reserved 30;
          reserved "aa";
          reserved "bb";

          optional .google.protobuf.Any n = 1;
          optional int32 m = 2 [
            default = 7,
            deprecated = true,
            json_name = "k"
          ];

          oneof x {
            int32 b = 3;
          }
          oneof y {
            int32 c = 4;
            int32 d = 5;
          }

          extensions 7;
          extensions 9;
        }
        message A {
          map<string, .Z> m = 1;
        }
        enum E {
          reserved 4;
          U = 0;
          V = 1;
        }
        """)
    assert normalized(read_schema(found)) == found
