"""Compatibility of Avro schemas."""

import json
from typing import Any

import pytest

from headwater.schemas.avro import compatibility
from headwater.schemas.avro.compatibility import Comparison, unreadable
from headwater.schemas.avro.schema import PRIMITIVES, Avro, parse
from headwater.schemas.errors import InvalidSchema


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
        ["FIXED_SIZE_MISMATCH /size"],
    ),
    "branch missing": (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH /1"]),
    "nullable no more": ("int", ["null", "int"], ["TYPE_MISMATCH /0"]),
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
def test_schemas_that_avro_resolves_are_compatible(name: str) -> None:
    reader, writer = READABLE[name]
    assert found(reader, writer) == []


@pytest.mark.parametrize("name", UNREADABLE)
def test_incompatibility_is_reported_with_its_path(name: str) -> None:
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


def test_pairs_of_a_failed_branch_are_compared_for_other_branches() -> None:
    """The first branch compares both enums and fails because of them.

    The second one reads the record.
    """
    first = rec(fld("e", enum("A")), name="S")
    second = rec(name="T", aliases=["S"])
    reader = rec(fld("u", [first, second]), fld("v", "E"))
    writer = rec(fld("u", rec(fld("e", enum("A", "B")), name="S")), fld("v", "E"))
    assert found(reader, writer) == ["MISSING_ENUM_SYMBOLS /fields/1/type/symbols"]


@pytest.mark.parametrize("tail", ["int", "string"])
def test_shared_records_on_many_levels_are_compared_once(tail: str) -> None:
    def level(depth: int, last: str) -> dict[str, Any]:
        if depth == 0:
            return rec(fld("f", last), name="R0")
        below = level(depth - 1, last)
        twice = [fld("f", ["null", below]), fld("g", ["null", f"R{depth - 1}"])]
        return rec(*twice, name=f"R{depth}")

    complaints = found(level(40, "int"), level(40, tail))
    assert bool(complaints) == (tail == "string")


def union_of_records(count: int, kind: str = "string") -> Avro:
    """A union whose records share no name, each with a field of its own type."""
    branches = [
        rec(fld("a", kind), fld("n", ["null", f"R{i}"]), name=f"R{i}") for i in range(count)
    ]
    return parse(json.dumps(branches)).root


def steps(reader: Avro, writer: Avro) -> int:
    comparison = Comparison()
    comparison.compare(reader, writer)
    return comparison.steps


def test_cost_of_a_union_is_linear() -> None:
    few, many = (steps(union_of_records(n), union_of_records(n)) for n in (100, 1_600))
    assert many <= 17 * few
    assert many <= 20 * 1_600


def test_cost_of_an_incompatible_union_is_linear() -> None:
    few, many = (steps(union_of_records(n), union_of_records(n, "int")) for n in (100, 1_600))
    assert many <= 17 * few
    complaints = unreadable(reader=union_of_records(100), writer=union_of_records(100, "int"))
    assert [each.kind for each in complaints] == ["MISSING_UNION_BRANCH"] * 50


def test_record_with_many_aliases_reads_a_union_of_as_many_records() -> None:
    names = [f"R{i}" for i in range(1_600)]
    reader = parse(json.dumps(rec(name="S", aliases=names))).root
    writer = parse(json.dumps([rec(name=name) for name in names])).root
    assert unreadable(reader=reader, writer=writer) == []
    assert steps(reader, writer) <= 3 * len(names)


def test_long_chain_of_records_is_compared_without_recursion() -> None:
    def chain(last: str) -> Avro:
        links = [rec(fld("f", last), name="R0")]
        links += [rec(fld("f", f"R{i - 1}"), name=f"R{i}") for i in range(1, 5_000)]
        return parse(json.dumps(links)).root

    assert unreadable(reader=chain("long"), writer=chain("int")) == []
    assert len(unreadable(reader=chain("int"), writer=chain("long"))) == 50


def test_schemas_with_too_many_pairs_of_types_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "STEPS_MAX", 1_000)
    assert unreadable(reader=union_of_records(50), writer=union_of_records(50)) == []
    with pytest.raises(InvalidSchema, match="too many pairs of types to compare"):
        unreadable(reader=union_of_records(500), writer=union_of_records(500))


def test_incompatibility_has_confluents_description() -> None:
    [told] = unreadable(
        reader=parse(json.dumps(rec(fld("a", "int")))).root, writer=parse(json.dumps(rec())).root
    )
    assert told.described(reader="new", writer="old") == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'a' at path "
        "'/fields/0' in the new schema has no default value and is missing in the old schema', "
        "additionalInfo:'a'}"
    )
