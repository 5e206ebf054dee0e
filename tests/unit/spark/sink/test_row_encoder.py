"""Rows of Spark as records: which columns there must be, and where rows go."""

import pyarrow as pa
import pytest

from headwater.spark.exceptions import WrongColumns
from headwater.spark.sink.row_encoder import by_topic, check_columns


def test_every_column_that_has_a_meaning_is_accepted() -> None:
    check_columns(
        {
            "topic": "string",
            "key": "binary",
            "value": "string",
            "partition": "int",
            "headers": "array<struct<key:string,value:binary>>",
        },
        None,
    )


@pytest.mark.parametrize(
    ("columns", "topic", "reason"),
    [
        ({"value": "string"}, None, "the topic is missing"),
        ({"key": "string"}, "t", "no column value among key"),
        ({"value": "int"}, "t", "binary or string, not int"),
        ({"value": "string", "partition": "string"}, "t", "int, not string"),
        ({"value": "string", "headers": "map<string,string>"}, "t", "array<struct"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_any_is(
    columns: dict[str, str], topic: str | None, reason: str
) -> None:
    with pytest.raises(WrongColumns, match=reason):
        check_columns(columns, topic)


def test_columns_that_mean_nothing_in_a_topic_are_left_out() -> None:
    check_columns({"value": "string", "amount": "int"}, "t")
    given = pa.RecordBatch.from_pydict({"amount": [3], "value": [b"1"], "offset": [7]})
    ((_, table),) = by_topic(given, "t")
    assert table.column_names == ["value"]


def rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": [b"1", b"2", None]})


def test_rows_go_to_the_topic_that_they_name_in_their_order() -> None:
    found = {topic: table.to_pydict() for topic, table in by_topic(rows(), None)}
    assert found == {"a": {"value": [b"1", None]}, "b": {"value": [b"2"]}}


def test_the_option_beats_the_column() -> None:
    ((topic, table),) = by_topic(rows(), "c")
    assert (topic, table.num_rows, table.column_names) == ("c", 3, ["value"])


def test_a_row_without_a_topic_stops_the_task() -> None:
    lost = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": [b"1", b"2"]})
    with pytest.raises(WrongColumns, match="a row has no topic"):
        list(by_topic(lost, None))
