"""Parsing lines into records: separators, headers, nulls and JSON."""

import pytest

from headwater.cli.data.line_records import LineFormat, LineRecord, unescaped


def test_a_line_is_a_value_with_the_common_headers() -> None:
    lines = LineFormat(headers=(("from", b"test"),))
    assert lines.read(b"green") == LineRecord(b"green", None, (("from", b"test"),))


def test_a_line_has_headers_key_and_value_in_this_order() -> None:
    lines = LineFormat(key_separator="|", headers_separator=";", headers=(("a", b"0"),))
    assert lines.read(b"a=1,a=2,b=x=y;kind|gr;e|en") == LineRecord(
        b"gr;e|en", b"kind", (("a", b"0"), ("a", b"1"), ("a", b"2"), ("b", b"x=y"))
    )
    assert lines.read(b";|") == LineRecord(b"", b"", (("a", b"0"),))


def test_the_null_marker_applies_to_keys_values_and_header_values() -> None:
    lines = LineFormat(key_separator="|", headers_separator=";", null=b"NULL")
    assert lines.read(b"a=NULL,b=;NULL|NULL") == LineRecord(None, None, (("a", None), ("b", b"")))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"kind|green", "no separator ';' after the headers"),
        (b"a=1;green", r"no separator '\|' after the key"),
        (b"a;kind|green", "'a' is not a header name=value"),
    ],
)
def test_a_line_without_a_separator_is_rejected(line: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LineFormat(key_separator="|", headers_separator=";").read(line)


def test_a_json_record_has_the_fields_of_consume_except_partition_and_offset() -> None:
    line = (
        b'{"topic": "t", "partition": 3, "offset": 7, "timestamp": 5, "key": {"base64": "/w=="},'
        b' "value": "gr\\u00fcn", "headers": [["h", null], ["h", "1"]]}'
    )
    assert LineFormat(is_json=True).read(line) == LineRecord(
        "grün".encode(), b"\xff", (("h", None), ("h", b"1")), 5
    )


def test_json_values_other_than_strings_are_sent_as_json() -> None:
    line = b'{"key": 5, "value": {"kind": "gr\\u00fcn"}, "headers": {"a": "1"}}'
    assert LineFormat(is_json=True).read(line) == LineRecord(
        '{"kind":"grün"}'.encode(), b"5", (("a", b"1"),)
    )
    assert LineFormat(is_json=True).read(b"{}") == LineRecord(None, None, ())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"[]", "not a JSON object"),
        (b"green", "Expecting value"),
        (b'{"valeu": "green"}', "unknown field of a record: valeu"),
        (b'{"value": {"base64": "?"}}', "is not base64"),
        (b'{"timestamp": "today"}', "is not a timestamp"),
        (b'{"headers": [["a"]]}', "is not a header"),
        (b'{"headers": 5}', "headers must be a list of pairs"),
    ],
)
def test_json_that_is_not_a_record_is_rejected(line: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LineFormat(is_json=True).read(line)


def test_escape_sequences_are_replaced() -> None:
    assert unescaped(r"a\tb\n\\n\x41\q\0") == "a\tb\n\\nA\\q\0"
