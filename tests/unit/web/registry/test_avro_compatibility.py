"""Tests for who can read whose data."""

import json
from typing import Any

import pytest

from headwater.web.registry.avro_compatibility import unreadable
from headwater.web.registry.avro_schema import PRIMITIVES, parse


def found(reader: Any, writer: Any) -> list[str]:
    complaints = unreadable(
        reader=parse(json.dumps(reader)).root, writer=parse(json.dumps(writer)).root
    )
    return [f"{each.kind} {each.path}" for each in complaints]


def rec(*fields: Any, name: str = "R", **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **others}


def fld(name: str, kind: Any, **others: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


def enum(*symbols: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **others}


READABLE: dict[str, tuple[Any, Any]] = {
    "the same": ("int", "int"),
    "int as long": ("long", "int"),
    "int as double": ("double", "int"),
    "long as float": ("float", "long"),
    "bytes as string": ("string", "bytes"),
    "string as bytes": ("bytes", "string"),
    "items promoted": ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    "into a union": (["null", "long"], "int"),
    "union into wider": (["null", "int", "string"], ["int", "null"]),
    "union into one type": ("double", ["int", "long"]),
    "new field with default": (rec(fld("a", "int", default=1)), rec()),
    "field left out": (rec(), rec(fld("a", "int"))),
    "field renamed with alias": (rec(fld("b", "int", aliases=["a"])), rec(fld("a", "int"))),
    "record renamed with alias": (rec(name="S", aliases=["R"]), rec()),
    "more symbols": (enum("A", "B"), enum("A")),
    "fewer symbols with default": (enum("A", default="A"), enum("A", "B")),
    "logical type dropped": ("int", {"type": "int", "logicalType": "date"}),
    "recursive": (
        rec(fld("n", ["null", "R"]), fld("b", "long", default=0)),
        rec(fld("n", ["null", "R"])),
    ),
    "namespace said otherwise": (
        rec(name="x.R"),
        rec(namespace="x"),
    ),
}
UNREADABLE: dict[str, tuple[Any, Any, list[str]]] = {
    "long as int": ("int", "long", ["TYPE_MISMATCH /"]),
    "int as string": ("string", "int", ["TYPE_MISMATCH /"]),
    "new field without default": (
        rec(fld("a", "int")),
        rec(),
        ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/0"],
    ),
    "other name": (rec(name="S"), rec(), ["NAME_MISMATCH /name"]),
    "other namespace": (rec(name="x.R"), rec(name="y.R"), ["NAME_MISMATCH /name"]),
    "fewer symbols": (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS /symbols"]),
    "fixed of another size": (
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "fixed", "name": "F", "size": 3},
        ["FIXED_SIZE_MISMATCH /"],
    ),
    "branch missing": (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH /[1]"]),
    "nullable no more": ("int", ["null", "int"], ["TYPE_MISMATCH /[0]"]),
    "deep in a field": (
        rec(fld("a", {"type": "map", "values": "int"})),
        rec(fld("a", {"type": "map", "values": "string"})),
        ["TYPE_MISMATCH /fields/0/type/values"],
    ),
    "deep in a recursion": (
        rec(fld("n", ["null", "R"]), fld("b", "int")),
        rec(fld("n", ["null", "R"]), fld("b", "string")),
        ["TYPE_MISMATCH /fields/1/type"],
    ),
    "two things at once": (
        rec(fld("a", "int"), fld("b", "int")),
        rec(),
        [
            "READER_FIELD_MISSING_DEFAULT_VALUE /fields/0",
            "READER_FIELD_MISSING_DEFAULT_VALUE /fields/1",
        ],
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_what_avro_resolves_is_compatible(name: str) -> None:
    reader, writer = READABLE[name]
    assert found(reader, writer) == []


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_avro_does_not_resolve_is_told_with_its_place(name: str) -> None:
    reader, writer, complaints = UNREADABLE[name]
    assert found(reader, writer) == complaints


PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def test_exactly_avros_promotions_are_readable() -> None:
    readable = {
        (writer, reader)
        for writer in PRIMITIVES
        for reader in PRIMITIVES
        if writer != reader and not found(reader, writer)
    }
    assert readable == PROMOTED


def test_what_a_branch_that_failed_had_taken_for_granted_is_looked_at_again() -> None:
    """The first branch meets both enums and fails for them; the second one reads the record."""
    first = rec(fld("e", enum("A")), name="S")
    second = rec(name="T", aliases=["S"])
    reader = rec(fld("u", [first, second]), fld("v", "E"))
    writer = rec(fld("u", rec(fld("e", enum("A", "B")), name="S")), fld("v", "E"))
    assert found(reader, writer) == ["MISSING_ENUM_SYMBOLS /fields/1/type/symbols"]


@pytest.mark.parametrize("tail", ["int", "string"])
def test_records_that_are_met_twice_on_each_of_many_levels_do_not_take_for_ever(tail: str) -> None:
    def level(depth: int, last: str) -> dict[str, Any]:
        if depth == 0:
            return rec(fld("f", last), name="R0")
        below = level(depth - 1, last)
        twice = [fld("f", ["null", below]), fld("g", ["null", f"R{depth - 1}"])]
        return rec(*twice, name=f"R{depth}")

    complaints = found(level(40, "int"), level(40, tail))
    assert bool(complaints) == (tail == "string")
