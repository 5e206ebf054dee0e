"""JSON of requests: strict, and objects of a stream wherever its chunks end."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rest.json_bodies import JsonObjects, encode_body, parse_body
from headwater.rest.rest_errors import RestProxyError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6)


@settings(max_examples=50)
@given(OBJECTS, st.sampled_from(["", "\n", " \r\n\t"]), st.integers(1, 20), st.booleans())
def test_objects_are_found_wherever_chunks_end(
    objects: list[dict[str, Any]], between: str, size: int, is_ascii: bool
) -> None:
    texts = [json.dumps(each, ensure_ascii=is_ascii) for each in objects]
    raw = (between + between.join(texts) + between).encode("utf-8", "surrogatepass")
    stream = JsonObjects(bytes_max=10_000)
    found = [
        each
        for start in range(0, len(raw), size)
        for each in stream.feed(raw[start : start + size])
    ]
    stream.check_end()
    assert [each.decode("utf-8", "surrogatepass") for each in found] == texts


@pytest.mark.parametrize("raw", [b"[1]", b"1", b'{"a":1},{"b":2}', b'"text"', b"}"])
def test_stream_of_something_else_is_rejected(raw: bytes) -> None:
    stream = JsonObjects(bytes_max=100)
    with pytest.raises(RestProxyError) as rejected:
        stream.feed(raw)
    assert rejected.value.status == 400


def test_object_larger_than_the_limit_is_rejected_before_it_is_complete() -> None:
    stream = JsonObjects(bytes_max=100)
    assert stream.feed(b'{"a":"') == []
    with pytest.raises(RestProxyError) as rejected:
        stream.feed(b"x" * 101)
    assert rejected.value.status == 413


def test_complete_object_larger_than_the_limit_is_rejected() -> None:
    stream = JsonObjects(bytes_max=100)
    with pytest.raises(RestProxyError) as rejected:
        stream.feed(b'{"a":"' + b"x" * 101 + b'"}')
    assert rejected.value.status == 413


def test_stream_that_ends_within_an_object_is_rejected() -> None:
    stream = JsonObjects(bytes_max=100)
    assert stream.feed(b'{} {"a"') == [b"{}"]
    with pytest.raises(RestProxyError):
        stream.check_end()


@pytest.mark.parametrize(
    "raw",
    [b"{", b"NaN", b'{"a": Infinity}', b'"\\ud800"', b"\xff", b"[" * 100_000, b"9" * 5_000],
    ids=["open", "nan", "infinity", "surrogate", "no-utf-8", "nested", "digits"],
)
def test_invalid_json_is_rejected(raw: bytes) -> None:
    with pytest.raises(RestProxyError) as rejected:
        parse_body(raw)
    assert rejected.value.status == 400


def test_unpaired_surrogate_of_a_record_does_not_break_a_response() -> None:
    assert encode_body({"value": "\ud800"}) == b'{"value":"?"}'
