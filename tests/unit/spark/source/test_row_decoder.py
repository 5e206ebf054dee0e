"""Records as rows of Spark: names, types and order."""

import pyarrow as pa
import pytest

from headwater.common.ids import TopicPartition
from headwater.records.arrow_columns import decode_batches
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec
from headwater.records.record import Record
from headwater.spark.exceptions import WrongColumns
from headwater.spark.source.row_decoder import before, check_columns, to_rows

ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
T3 = TopicPartition("t", 3)


def decoded() -> pa.RecordBatch:
    records = [
        Record(
            offset=7,
            timestamp=1_700_000_000_001,
            key=b"k",
            value=b"v",
            headers=(("h", b"x"),),
        ),
        Record(offset=8, timestamp=1_700_000_000_002, key=None, value=None, headers=()),
    ]
    return decode_batches(build_batch(records, codec=Codec.NONE))


def test_rows_have_exactly_the_types_that_spark_reads() -> None:
    rows = to_rows(T3, ALL, frozenset())(decoded())
    assert rows.schema.names == list(ALL)
    assert [str(field.type) for field in rows.schema] == [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]


def test_a_row_is_what_the_record_was() -> None:
    first, second = to_rows(T3, ALL, frozenset())(decoded()).to_pylist()
    time = first.pop("timestamp")
    assert round(time.timestamp() * 1000) == 1_700_000_000_001
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)


def test_where_no_record_has_headers_all_are_null() -> None:
    rows = to_rows(T3, ("headers",), frozenset())(decoded().slice(1))
    assert rows.to_pylist() == [{"headers": None}]


def test_columns_can_be_left_out_and_put_in_another_order() -> None:
    rows = to_rows(T3, ("offset", "value"), frozenset({"value"}))(decoded())
    assert rows.to_pylist() == [{"offset": 7, "value": "v"}, {"offset": 8, "value": None}]


def test_a_range_ends_before_its_end() -> None:
    assert before(decoded(), 9).num_rows == 2
    assert before(decoded(), 8).num_rows == 1
    assert before(decoded(), 7).num_rows == 0


def test_the_documented_columns_are_accepted() -> None:
    check_columns({"value": "string", "offset": "bigint", "timestamp": "timestamp"})


@pytest.mark.parametrize(
    ("name", "reason"),
    [("amount", "a record has no amount"), ("offset", "of type bigint, not int")],
)
def test_columns_that_a_record_has_not_are_refused(name: str, reason: str) -> None:
    with pytest.raises(WrongColumns, match=reason):
        check_columns({name: "int"})
