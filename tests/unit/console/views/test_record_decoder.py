"""Rendering of keys and values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.errors import SerializationFailed
from headwater.console.views.record_decoder import FORMATS, Registered, indented, shown

AVRO = b"\0\0\0\0\x07rest"
FRAMED_JSON = b'\0\0\0\0\x08{"a":1.10}'
BROKEN = b'\0\0\0\0\x08{"a":'


def read(raw: bytes) -> Registered:
    if raw in (FRAMED_JSON, BROKEN):
        return Registered("JSON")
    if raw != AVRO:
        raise SerializationFailed("not of this schema")
    return Registered("AVRO", {"kind": "green", "raw": b"\x01"})


@pytest.mark.parametrize(
    ("raw", "wanted", "expected"),
    [
        (None, "auto", ("null", "")),
        (b"", "auto", ("text", "")),
        (b"green tea", "auto", ("text", "green tea")),
        (b'{"a":1.10}', "auto", ("json", '{\n  "a": 1.10\n}')),
        (b"{not json", "auto", ("text", "{not json")),
        (b"\xff\xfe", "auto", ("hex", "00000000  " + "ff fe".ljust(47) + "  ..")),
        (b"a\0b", "auto", ("hex", "00000000  " + "61 00 62".ljust(47) + "  a.b")),
        (b"\xff", "text", ("text", "\\xff")),
        (b"17", "json", ("json", "17")),
        (AVRO, "auto", ("avro", '{\n  "kind": "green",\n  "raw": "0x01"\n}')),
        (FRAMED_JSON, "auto", ("json", '{\n  "a": 1.10\n}')),
        (FRAMED_JSON, "json", ("json", '{\n  "a": 1.10\n}')),
        (FRAMED_JSON, "avro", ("json", '{\n  "a": 1.10\n}')),
    ],
)
def test_bytes_are_rendered_in_the_requested_or_a_fitting_format(
    raw: bytes | None, wanted: str, expected: tuple[str, str]
) -> None:
    found = shown(raw, wanted, chars_max=1000, read=read)
    assert (found.format, found.text) == expected


def test_bytes_in_another_format_are_rendered_with_a_note() -> None:
    assert shown(b"tea", "json", chars_max=10).note == "not JSON"
    assert "needs a schema registry" in (shown(AVRO, "avro", chars_max=10).note or "")
    failed = shown(b"\0abcdef", "auto", chars_max=1000, read=read)
    assert failed.format == "hex"
    assert failed.note == "not a value with a schema: not of this schema"
    assert shown(AVRO[:-1], "avro", chars_max=10, read=read).note == "not Avro: not of this schema"
    assert shown(AVRO, "json", chars_max=1000, read=read).note == "not JSON"
    assert "its schema is JSON" in (shown(BROKEN, "auto", chars_max=1000, read=read).note or "")


@pytest.mark.parametrize("wanted", ["auto", "avro", "json"])
def test_schema_id_of_a_value_is_shown(wanted: str) -> None:
    assert shown(AVRO, "avro", chars_max=100, read=read).schema_id == 7
    found = shown(FRAMED_JSON, wanted, chars_max=100, read=read)
    assert (found.schema_id, found.size_bytes) == (8, len(FRAMED_JSON))


@pytest.mark.parametrize("wanted", ["text", "hex", "auto"])
def test_long_values_are_truncated(wanted: str) -> None:
    found = shown(b"x" * 100_000, wanted, chars_max=1000)
    assert len(found.text) <= 1000
    assert found.is_cut
    assert found.size_bytes == 100_000


def test_json_is_only_indented() -> None:
    """Parsed and serialized again, the number would be 1.1 and the first `a` would be lost."""
    text = '{"a":1.10,"a":[],"b":{},"c":[1,"x, {\\"y\\"}"]}'
    assert indented(text) == (
        '{\n  "a": 1.10,\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    "x, {\\"y\\"}"\n  ]\n}'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_indented_json_is_the_same_json(value: object) -> None:
    assert json.loads(indented(json.dumps(value))) == value


@given(st.binary(max_size=300) | st.none(), st.sampled_from(FORMATS), st.integers(1, 100))
def test_any_bytes_are_rendered_within_the_limit(
    raw: bytes | None, wanted: str, chars_max: int
) -> None:
    found = shown(raw, wanted, chars_max=chars_max)
    # A row of hex is never truncated.
    assert len(found.text) <= max(chars_max, 80)
    assert found.size_bytes == len(raw or b"")


def test_deeply_nested_json_is_rendered_as_text() -> None:
    assert shown(b"[" * 100_000, "auto", chars_max=10).format == "text"


def test_large_json_is_only_indented_up_to_the_limit() -> None:
    large = "[" + ",".join(["{}"] * 200_000) + "]"
    assert len(indented(large, chars_max=100)) < 120
    whole = indented('{"a": [1, {}], "b": {"c": []}}')
    for length in range(1, len(whole)):
        cut = indented('{"a": [1, {}], "b": {"c": []}}', chars_max=length)
        assert whole.startswith(cut)
        assert len(cut) > length
