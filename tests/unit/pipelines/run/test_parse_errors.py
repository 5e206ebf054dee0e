"""The reasons that go with dead letters."""

import pytest

from headwater.pipelines.run.parse_errors import parse_error

SCHEMA = (
    "id bigint, amount double, tags array<string>, who struct<age:int>, at timestamp, ok boolean"
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": 1', "not JSON: Expecting ',' delimiter at line 1 column 9"),
        (b"", "not JSON: empty"),
        (b"\xff\xfe", "not UTF-8: byte 0 is 0xff"),
        (b"[1]", "not a JSON object: [1]"),
        (b'{"id": "one"}', 'id is not of type bigint: "one"'),
        (b'{"id": 99999999999999999999}', "id is not of type bigint: 99999999999999999999"),
        (b'{"id": true}', "id is not of type bigint: true"),
        (b'{"amount": "much"}', 'amount is not of type double: "much"'),
        (b'{"tags": "a"}', 'tags is not of type array<string>: "a"'),
        (b'{"who": {"age": "old"}}', 'who.age is not of type int: "old"'),
        (b'{"at": "noon"}', 'at is not of type timestamp: "noon"'),
        (b'{"at": 1767225600.5}', "at is not of type timestamp: 1767225600.5"),
        (b'{"at": 1767225600, "ok": 1}', "ok is not of type boolean: 1"),
        (b'{"ok": 1}', "ok is not of type boolean: 1"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_the_reason_names_what_is_wrong(value: bytes, reason: str) -> None:
    assert parse_error(value, "json", SCHEMA) == reason


def test_unknown_reason_is_reported_with_the_whole_schema() -> None:
    assert parse_error(b'{"id": 1}', "json", "id bigint") == "does not fit the schema id bigint"
    assert parse_error(b"a;b", "csv", "a int") == "not csv of the schema a int"


def test_a_long_value_is_cut() -> None:
    told = parse_error(b'{"id": "' + b"x" * 1000 + b'"}', "json", "id bigint")
    assert len(told) < 100
    assert told.endswith("...")
