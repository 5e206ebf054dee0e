"""Records that the test kit feeds to sources."""

import json
from datetime import UTC, datetime

import pytest

from headwater.pipelines.spec.ddl import read_schema
from headwater.pipelines.spec.pipeline_spec import Coding, Decoding, SourceSpec
from headwater.testing.pipelines.source_records import InvalidRow, RowEncoder


def decoding(coding: Coding, schema: str) -> Decoding:
    return Decoding(coding=coding, schema=schema, fields=tuple(read_schema(schema)))


def source(key: Decoding | None, value: Decoding | None) -> SourceSpec:
    return SourceSpec(name="orders", place=(), key=key, value=value)


def test_columns_of_the_key_are_not_in_the_value() -> None:
    key, value = decoding(Coding.STRING, "customer string"), decoding(Coding.JSON, "id bigint")
    encoder = RowEncoder(source(key, value), {})
    assert encoder.encode({"customer": "ada", "id": 1}, None) == (b"ada", b'{"id": 1}')
    assert encoder.encode({"customer": "ada"}, None) == (b"ada", b"{}")


def test_times_are_written_as_iso_8601() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    value = decoding(Coding.JSON, "at timestamp, id int")
    _, found = RowEncoder(source(None, value), {}).encode({"at": at}, None)
    assert json.loads(found or b"") == {"at": "2026-01-01T00:00:00+00:00"}
    csv = decoding(Coding.CSV, "at timestamp, name string")
    row = {"at": at, "name": 'a,"b"'}
    expected = b'2026-01-01T00:00:00+00:00,"a,""b"""'
    assert RowEncoder(source(None, csv), {}).encode(row, None) == (None, expected)


def test_a_column_of_the_value_can_be_the_key_too() -> None:
    encoder = RowEncoder(source(None, decoding(Coding.JSON, "id bigint")), {})
    assert encoder.encode({"id": 7}, "id") == (b"7", b'{"id": 7}')


def test_unknown_columns_are_refused() -> None:
    encoder = RowEncoder(source(None, decoding(Coding.JSON, "id bigint, amount double")), {})
    with pytest.raises(InvalidRow, match="orders has no column amuont; did you mean amount"):
        encoder.encode({"amuont": 1}, None)
    with pytest.raises(InvalidRow, match="it has id, amount"):
        encoder.encode({"zzz": 1}, None)
    with pytest.raises(InvalidRow, match="feed texts"):
        RowEncoder(source(None, None), {}).encode({"id": 1}, None)
