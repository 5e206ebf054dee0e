"""Avro schemas compared with Avro's Java library, which comes with pyspark.

A registry finds a schema's id by the text that this library prints, so Headwater's must be equal.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.schemas.avro.canonical_form import canonical
from headwater.schemas.avro.compatibility import unreadable
from headwater.schemas.avro.schema import parse
from headwater.schemas.errors import InvalidSchema
from tests.property.avro_schemas import edited, schemas

pytestmark = pytest.mark.peers

_PROGRAM = Path(__file__).parent / "java" / "AvroJudge.java"
_ONE_JUDGE = settings(
    max_examples=1_000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

TEXTS = [
    '"int"',
    '{"type": "int"}',
    '{"type": "int", "logicalType": "date"}',
    '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}',
    '["null", {"type": "string", "avro.java.string": "String"}]',
    '{"type": "array", "items": "long", "default": []}',
    '{"type": "map", "values": ["null", "float"]}',
    '{"name": "E", "type": "enum", "symbols": ["A", "B"], "default": "B", "doc": "d"}',
    '{"size": 4, "name": "F", "type": "fixed", "aliases": ["G", "other.H"], "namespace": "n"}',
    """{"type": "record", "namespace": "shop", "name": "Order", "doc": "one\\nline", "extra": [1],
        "fields": [
            {"name": "id", "type": "long", "order": "ignore", "default": -1, "x": {"b": 1}},
            {"name": "price", "type": "double", "default": 1.5, "aliases": ["cost"]},
            {"name": "rate", "type": "float", "default": 1},
            {"name": "raw", "type": "bytes", "default": "\\u00ff\\u0001"},
            {"name": "note", "type": ["null", "string"], "default": null, "doc": "\u2615 & more"},
            {"name": "item", "type": {"type": "record", "name": "Item", "fields": [
                {"name": "kind", "type": {"type": "enum", "name": "other.Kind", "symbols": ["A"]}},
                {"name": "again", "type": ["null", "Order"]}]}},
            {"name": "items", "type": {"type": "array", "items": "shop.Item"}},
            {"name": "kind", "type": "other.Kind", "default": "A"}]}""",
    '{"type": "error", "name": "Oops", "fields": []}',
    '{"type": "record", "name": "a.b.C", "fields": [{"name": "d", "type": ["null", "C"]}]}',
    '{"type": "record", "name": "C", "namespace": "", "fields": []}',
    '{"type": "record", "name":"Q", "fields": [{"name": "t", "type": "string", "default": "\\""}]}',
]


class Judge:
    """One Java process for all questions."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def text(self, schema: Any) -> str:
        return self._ask("text", _line(schema))

    def reads(self, reader: Any, writer: Any) -> str:
        return self._ask("reads", _line(reader), _line(writer))

    def reasons(self, reader: Any, writer: Any) -> list[str]:
        return [
            each for each in self._ask("reasons", _line(reader), _line(writer)).split(";") if each
        ]

    def _ask(self, *parts: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(parts) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().removesuffix("\n")


def _line(schema: Any) -> str:
    # Parsed and written again, so that it is one line.
    return json.dumps(json.loads(schema) if isinstance(schema, str) else schema)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    pyspark = pytest.importorskip("pyspark")
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = ["java", "-cp", str(jars), str(_PROGRAM)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield Judge(process)
        process.kill()


def _ours(text: str) -> str:
    try:
        return canonical(parse(text))
    except InvalidSchema:
        return "refused"


@pytest.mark.parametrize("text", TEXTS)
def test_schema_is_printed_as_by_avros_java_library(judge: Judge, text: str) -> None:
    assert _ours(_line(text)) == judge.text(text)


@_ONE_JUDGE
@given(schema=schemas)
def test_any_accepted_schema_is_printed_equally(judge: Judge, schema: Any) -> None:
    """Not the other way round: Avro 1.12 for Java accepts equal definitions of a name twice."""
    text = json.dumps(schema)
    assert _ours(text) in ("refused", judge.text(text))


@_ONE_JUDGE
@given(pair=schemas.flatmap(lambda schema: st.tuples(st.just(schema), edited(schema))))
def test_compatibility_results_are_equal(judge: Judge, pair: tuple[Any, Any]) -> None:
    writer, reader = map(json.dumps, pair)
    if "refused" in (_ours(writer), _ours(reader)):
        return
    found = unreadable(reader=parse(reader).root, writer=parse(writer).root)
    assert ("INCOMPATIBLE" if found else "COMPATIBLE") == judge.reads(reader, writer), found


@_ONE_JUDGE
@given(pair=schemas.flatmap(lambda schema: st.tuples(st.just(schema), edited(schema))))
def test_incompatibilities_have_the_same_messages(judge: Judge, pair: tuple[Any, Any]) -> None:
    """As sets: Avro for Java repeats incompatibilities of types that occur twice."""
    writer, reader = map(json.dumps, pair)
    if "refused" in (_ours(writer), _ours(reader)):
        return
    found = unreadable(reader=parse(reader).root, writer=parse(writer).root)
    ours = {f"{each.kind} {each.path} {each.reason}" for each in found}
    assert ours == set(judge.reasons(reader, writer))
