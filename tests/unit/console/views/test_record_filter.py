"""Text filter on records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.errors import SerializationFailed
from headwater.console.views.record_decoder import Registered
from headwater.console.views.record_filter import Word
from headwater.records.batch_header import TimestampType
from headwater.records.consumer_record import ConsumerRecord


def record(
    value: bytes | None = None,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    return ConsumerRecord(
        topic="tea",
        partition=0,
        offset=0,
        timestamp=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=0,
    )


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("green", "Some GREEN tea"),
        ("Zürich", "nach Zürich"),
        ("zürich", "NACH ZÜRICH"),
        ("Zürich", '{"city": "Z\\u00fcrich"}'),
        ("zÜrich", '{"city": "Z\\u00FCrich"}'),
        ("東京", '{"city": "\\u6771\\u4eac"}'),
        ('say "tea"', '{"text": "say \\"tea\\""}'),
        ("\N{TEACUP WITHOUT HANDLE}", '"\\ud83c\\udf75"'),
    ],
)
def test_text_is_found_case_insensitively(word: str, value: str) -> None:
    assert Word.of(word).holds(record(value.encode()))
    assert not Word.of(word).holds(record(b"coffee"))


@given(st.text(min_size=1))
def test_json_is_matched_escaped_or_not(text: str) -> None:
    for is_ascii in (True, False):
        value = json.dumps({"text": text}, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        assert Word.of(text).holds(record(value))


def test_filter_only_searches_the_chosen_part() -> None:
    found = record(b"black", key=b"green", headers=(("origin", b"china"), ("none", None)))
    for word, places in (
        ("green", ["anywhere", "key"]),
        ("black", ["anywhere", "value"]),
        ("china", ["anywhere", "headers"]),
        ("origin", ["anywhere", "headers"]),
    ):
        for place in ("anywhere", "key", "value", "headers"):
            assert Word.of(word, place=place).holds(found) == (place in places)


def read_avro(raw: bytes) -> Registered:
    if raw[4] != 7:
        raise SerializationFailed("there is no such schema")
    return Registered("AVRO", {"amount": int.from_bytes(raw[5:], "big"), "kind": "GRÜN"})


def test_avro_is_decoded_before_it_is_searched() -> None:
    avro = record(b"\0\0\0\0\x07" + (1234).to_bytes(2, "big"))
    for text in ("1234", '"amount": 12', "grün"):
        assert Word.of(text, read_value=read_avro).holds(avro)
        assert not Word.of(text).holds(avro)
    assert not Word.of("1234", read_value=read_avro).holds(record(b"\0\0\0\0\x08\x04\xd2"))
    assert not Word.of("1234", read_value=read_avro).holds(record(b"\0\0"))


def test_empty_filter_matches_every_record() -> None:
    assert Word().holds(record())
    assert not Word()
