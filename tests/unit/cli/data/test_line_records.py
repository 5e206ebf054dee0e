"""Lines as records: separators, headers, nulls, and records as JSON."""

import pytest

from headwater.cli.data.line_records import LineFormat, LineRecord, unescaped


def test_a_line_is_a_value_and_every_record_has_the_common_headers() -> None:
    lines = LineFormat(headers=(("from", b"test"),))
    assert lines.read(b"green") == LineRecord(b"green", None, (("from", b"test"),))


def test_headers_key_and_value_stand_in_a_line_in_this_order() -> None:
    lines = LineFormat(key_separator="|", headers_separator=";", headers=(("a", b"0"),))
    assert lines.read(b"a=1,a=2,b=x=y;kind|gr;e|en") == LineRecord(
        b"gr;e|en", b"kind", (("a", b"0"), ("a", b"1"), ("a", b"2"), ("b", b"x=y"))
    )
    assert lines.read(b";|") == LineRecord(b"", b"", (("a", b"0"),))


def test_null_may_be_a_key_a_value_or_the_value_of_a_header() -> None:
    lines = LineFormat(key_separator="|", headers_separator=";", null=b"NULL")
    assert lines.read(b"a=NULL,b=;NULL|NULL") == LineRecord(None, None, (("a", None), ("b", b"")))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"kind|green", "there is no ';' behind its headers"),
        (b"a=1;green", r"there is no '\|' behind a key"),
        (b"a;kind|green", "'a' is no header name=value"),
    ],
)
def test_a_line_that_lacks_something_is_refused(line: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LineFormat(key_separator="|", headers_separator=";").read(line)


def test_a_record_in_json_has_all_that_consuming_prints_but_its_place() -> None:
    line = (
        b'{"topic": "t", "partition": 3, "offset": 7, "timestamp": 5, "key": {"base64": "/w=="},'
        b' "value": "gr\\u00fcn", "headers": [["h", null], ["h", "1"]]}'
    )
    assert LineFormat(is_json=True).read(line) == LineRecord(
        "grün".encode(), b"\xff", (("h", None), ("h", b"1")), 5
    )


def test_what_is_no_text_in_json_is_sent_as_json() -> None:
    line = b'{"key": 5, "value": {"kind": "gr\\u00fcn"}, "headers": {"a": "1"}}'
    assert LineFormat(is_json=True).read(line) == LineRecord(
        '{"kind":"grün"}'.encode(), b"5", (("a", b"1"),)
    )
    assert LineFormat(is_json=True).read(b"{}") == LineRecord(None, None, ())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"[]", "no JSON object"),
        (b"green", "Expecting value"),
        (b'{"valeu": "green"}', "a record has no valeu"),
        (b'{"value": {"base64": "?"}}', "is no base64"),
        (b'{"timestamp": "today"}', "is no timestamp"),
        (b'{"headers": [["a"]]}', "is no header"),
        (b'{"headers": 5}', "headers are a list of pairs"),
    ],
)
def test_json_that_is_no_record_is_refused(line: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LineFormat(is_json=True).read(line)


def test_escapes_mean_what_they_mean_elsewhere() -> None:
    assert unescaped(r"a\tb\n\\n\x41\q\0") == "a\tb\n\\nA\\q\0"
