"""Columns of Avro in the rows of a source and of a sink."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import UnparsableRecord
from headwater.spark.formats.avro.avro_options import AvroTarget, RegistryAccess
from headwater.spark.formats.typed_values import AvroColumn, read_column, written
from tests.unit.spark.formats.avro.test_registry_cache import LONG, registry_that_says

GOOD, BAD = b"\0\0\0\0\7\x02", b"\0\0\0\0\7\x02!"
T0 = TopicPartition("tea", 0)


def records(*values: bytes | None) -> Any:
    offsets = list(range(40, 40 + len(values)))
    return pa.record_batch({"value": pa.array(values, pa.binary()), "offset": offsets})


def test_record_that_is_not_avro_fails_the_query_with_its_offset() -> None:
    with registry_that_says([LONG]) as url:
        column = AvroColumn(registry=RegistryAccess(url), schema='"long"', is_lenient=False)
        assert read_column(T0, "value", column, records(GOOD, None)).to_pylist() == [1, None]
        with pytest.raises(UnparsableRecord, match="tea-0 at offset 41 cannot be read as Avro"):
            read_column(T0, "value", column, records(GOOD, BAD))


def test_a_record_that_is_no_avro_is_null_where_that_is_asked_for() -> None:
    with registry_that_says([LONG]) as url:
        column = AvroColumn(registry=RegistryAccess(url), schema='"long"', is_lenient=True)
        found = read_column(T0, "value", column, records(BAD, GOOD))
        assert found.to_pylist() == [None, 1]


def test_a_schema_is_asked_for_once_in_a_process() -> None:
    answers = [LONG, LONG]
    with registry_that_says(answers) as url:
        column = AvroColumn(registry=RegistryAccess(url), schema='"long"', is_lenient=False)
        for _ in range(3):
            read_column(T0, "value", column, records(GOOD))
    assert answers == [LONG]


def test_columns_with_a_target_are_sent_as_avro_and_others_as_json_or_as_they_are() -> None:
    rows = pa.record_batch({"key": [1], "value": [1], "topic": ["tea"]})
    [found] = written([rows], ("key", "value"), {"value": AvroTarget(7, '"long"')})
    assert found.to_pylist() == [{"key": b"1", "value": GOOD, "topic": "tea"}]
