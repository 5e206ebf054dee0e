"""Rows that the test kit reads from sinks."""

from collections.abc import Mapping

from headwater.testing.pipelines.row_diff import row_diff
from headwater.testing.pipelines.sink_rows import SinkRow, SinkRows

NAN = float("nan")


def rows(*values: Mapping[str, object]) -> SinkRows:
    return SinkRows([SinkRow(each, key=str(each.get("id"))) for each in values], name="orders")


def test_rows_are_equal_in_any_order_and_count() -> None:
    found = rows({"id": 1, "tags": ["a"]}, {"id": 2, "tags": []})
    expected = [{"id": 2, "tags": []}, {"id": 1, "tags": ["a"]}]
    assert found == expected
    assert expected == found
    assert found != [{"id": 2, "tags": []}]
    assert rows({"id": 1}, {"id": 1}) != [{"id": 1}]
    assert rows({"x": NAN}) == [{"x": NAN}]
    assert found.in_order != expected


def test_columns_and_rows_are_selected() -> None:
    found = rows({"id": 1, "name": "a"}, {"id": 2})
    assert found.select("name") == [{"name": "a"}, {"name": None}]
    assert found.where(name="a") == [{"id": 1, "name": "a"}]
    assert found.keys == ["1", "2"]
    assert SinkRows(found, new=1).new == [{"id": 2}]


def test_the_latest_rows_of_a_changelog_leave_deleted_keys_out() -> None:
    log = [SinkRow({"v": 1}, key="a"), SinkRow({"v": 2}, key="b"), SinkRow({"v": 3}, key="a")]
    gone = SinkRow({}, key="b", is_tombstone=True)
    assert SinkRows([*log, gone]).latest() == {"a": {"v": 3}}


def test_a_diff_marks_the_cells_that_differ() -> None:
    found = rows({"id": 1, "name": "ada"}, {"id": 2, "name": "ben"}, {"id": 4, "name": "x"})
    expected = [{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}, {"id": 9, "at": None}]
    assert row_diff(found, expected) == [
        "2 rows missing, 2 rows not expected, 1 equal",
        "    id  name   at",
        "  = 1   'ada'  -",
        "  - 2   'bob'  -",
        "  + 2   'ben'  -",
        "        ^^^^^",
        "  - 9   -      None",
        "  + 4   'x'    -",
    ]


def test_a_diff_counts_equal_rows_and_cuts_long_cells() -> None:
    found = rows(*({"id": each} for each in range(9)), {"id": "z" * 99})
    lines = row_diff(found, [{"id": each} for each in range(9)])
    assert lines[0] == "0 rows missing, 1 row not expected, 9 equal"
    assert lines[-2:] == [f"  + '{'z' * 36}...", "  ... and 4 rows more that are equal"]
    assert row_diff(found, ["text"]) == ["rows are dictionaries, not 'text'"]
