"""Arbitrary bytes are parsed or raise ProtocolError, with bounded memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_table import APIS, Api
from headwater.protocol.codec import read, request_class, response_class
from headwater.protocol.headers import (
    read_correlation_id,
    read_request_header,
    response_body_position,
)
from headwater.protocol.older_versions import Message, older_class
from headwater.protocol.schema import wire_fields
from headwater.protocol.struct_formats import least_bytes
from tests.property.protocol.kio_judge import (
    JUDGED,
    as_kio,
    kio_bytes,
    kio_request,
    kio_response,
    random_message,
)

# Wrong lengths: compact, int16 and int32, the largest and null.
LIES = [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\xff\xff", b"\0"]
EVERY_VERSION = [
    (shape_of(api.key), version)
    for api in APIS.values()
    for version in range(api.oldest, api.newest + 1)
    for shape_of in (request_class, response_class)
]


def parses_or_is_rejected(shape: type[Message], version: int, body: bytes) -> None:
    with suppress(ProtocolError):
        read(shape, version, memoryview(bytearray(body)))


def valid_bodies(api: Api, rng: Random) -> Iterator[tuple[type[Message], int, bytes]]:
    """A random body of every version of an API's request and response."""
    for version in range(api.oldest, api.newest + 1):
        for shape_of, kio_of in ((request_class, kio_request), (response_class, kio_response)):
            shape = shape_of(api.key)
            kio_class = kio_of(api, version)
            wire_shape: type = older_class(shape, version) or shape
            message = random_message(rng, wire_shape, kio_class, version)
            yield shape, version, kio_bytes(as_kio(message, kio_class, version))


def damaged(rng: Random, body: bytes) -> bytes:
    position = rng.randrange(len(body) + 1)
    match rng.randrange(5):
        case 0:
            return body[:position]
        case 1:
            return body[:position] + rng.randbytes(1) + body[position + 1 :]
        case 2:
            return body[:position] + rng.choice(LIES) + body[position:]
        case 3:
            lie = rng.choice(LIES)
            return body[:position] + lie + body[position + len(lie) :]
        case _:
            return body[:position] + body[rng.randrange(len(body) + 1) :]


@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=200))
@example(EVERY_VERSION[0], b"")
@settings(max_examples=400)
def test_random_bytes_are_decoded_or_rejected(
    which: tuple[type[Message], int], body: bytes
) -> None:
    parses_or_is_rejected(*which, body)


@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_corrupt_messages_are_decoded_or_rejected(api: Api) -> None:
    rng = Random(api.key)
    for shape, version, body in valid_bodies(api, rng):
        for _ in range(60):
            parses_or_is_rejected(shape, version, damaged(rng, body))


@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_truncated_message_is_rejected_and_trailing_bytes_are_ignored(api: Api) -> None:
    """librdkafka sends three extra bytes when it requests all topics."""
    for shape, version, body in valid_bodies(api, Random(api.key)):
        if body:
            with pytest.raises(ProtocolError):
                read(shape, version, memoryview(body[:-1]))
        whole = read(shape, version, memoryview(body))
        assert read(shape, version, memoryview(body + b"\1\0\0")) == whole


def test_wrong_lengths_cost_no_memory() -> None:
    """A frame of a few bytes that claims two billion elements must not exhaust the broker."""
    rng = Random(1)
    tracemalloc.start()
    try:
        for api in JUDGED[::5]:
            for shape, version, body in valid_bodies(api, rng):
                parses_or_is_rejected(shape, version, body)
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                for position in range(min(len(body), 80)):
                    for lie in LIES:
                        parses_or_is_rejected(shape, version, body[:position] + lie)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 64 * 1024 + 200 * len(body), (shape, version)
    finally:
        tracemalloc.stop()


def test_every_element_of_every_array_takes_at_least_a_byte() -> None:
    """Otherwise a count could not be compared with the rest of the frame."""

    def check(cls: type, version: int, flexible: bool) -> None:
        for field in wire_fields(cls):
            if field.travels_in(version) and field.repeated:
                assert least_bytes(field.kind, version, flexible) > 0, (cls, field.name, version)
            if field.travels_in(version) and isinstance(field.kind, type):
                check(field.kind, version, flexible)

    for shape, version in EVERY_VERSION:
        wire_shape: type = older_class(shape, version) or shape
        check(wire_shape, version, APIS[shape.api].is_flexible(version))


@given(st.binary(max_size=60), st.sampled_from(list(APIS.values())), st.integers(0, 20))
def test_arbitrary_bytes_are_a_header_or_rejected(data: bytes, api: Api, version: int) -> None:
    frame = memoryview(data)
    likely = api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + data
    for attempt in (data, likely):
        with suppress(ProtocolError):
            header = read_request_header(memoryview(attempt))
            assert header.body_position <= len(attempt)
    with suppress(ProtocolError):
        read_correlation_id(frame)
        assert response_body_position(api, version, frame) <= len(frame)
