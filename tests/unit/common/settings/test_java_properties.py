"""Java properties format, as `java.util.Properties` defines it."""

import pytest

from headwater.common.settings.java_properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"a=b", {"a": "b"}),
        (b"a:b\r\nc d\re", {"a": "b", "c": "d", "e": ""}),
        (b"  a \t= \f b \n", {"a": "b "}),
        (b"a==b", {"a": "=b"}),
        (b"a = : b", {"a": ": b"}),
        (b"# no\n ! no\n\n \t\na=#yes", {"a": "#yes"}),
        (b"a=1\na=2", {"a": "2"}),
        (rb"a\ b\=\:=c", {"a b=:": "c"}),
        (b"a=b\\\n   c\\\r\n  d", {"a": "bcd"}),
        (b"a=b\\\n#c", {"a": "b#c"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"# comment \\\na=b", {"a": "b"}),
        (rb"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (rb"a=\u00e9\ud83d\uDE00", {"a": "é😀"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a=b\\", {"a": "b"}),
        (b"=b", {"": "b"}),
    ],
)
def test_properties_are_parsed_as_in_java(content: bytes, values: dict[str, str]) -> None:
    assert parse_properties(content) == values


@pytest.mark.parametrize("content", [rb"a=\u12", rb"a=\u12g4", rb"a=\ud800"])
def test_bad_escape_is_rejected(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_properties(content)


def test_properties_are_written_with_java_escapes() -> None:
    values = {"a b": "  x y", "k=": "#é😀\n"}
    assert format_properties(values) == (
        rb"a\ b=\ \ x y" + b"\n" + rb"k\==\#\u00E9\uD83D\uDE00\n" + b"\n"
    )
