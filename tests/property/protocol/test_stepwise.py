"""Stepwise decoding and encoding equal that in one call."""

from collections.abc import Generator
from random import Random
from typing import TypeVar

import pytest

from headwater.common.exceptions import ProtocolError
from headwater.protocol.api_table import Api
from headwater.protocol.codec import read, write
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.protocol.older_versions import Message
from headwater.protocol.reader_codegen import STEP_ELEMENTS
from headwater.protocol.stepwise_codec import read_in_steps, write_in_steps
from tests.property.protocol.kio_judge import JUDGED
from tests.property.protocol.test_hostile_bytes import damaged, valid_bodies
from tests.unit.protocol.bytes_of import joined

T = TypeVar("T")


def result_of(steps: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result of the steps, and their number."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def read_at_once(shape: type[Message], version: int, body: bytes, most: int) -> Message | str:
    try:
        return read(shape, version, memoryview(body), most)
    except ProtocolError as error:
        return str(error)


def read_stepwise(shape: type[Message], version: int, body: bytes, most: int) -> Message | str:
    try:
        return result_of(read_in_steps(shape, version, memoryview(body), most))[0]
    except ProtocolError as error:
        return str(error)


@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_steps_give_the_same_result_as_one_call(api: Api) -> None:
    rng = Random(api.key)
    for shape, version, body in valid_bodies(api, rng):
        for content in (body, damaged(rng, body)):
            most = rng.choice([3, 1_000])
            found = read_at_once(shape, version, content, most)
            assert read_stepwise(shape, version, content, most) == found
        message = read(shape, version, memoryview(body))
        in_steps, _ = result_of(write_in_steps(message, version))
        assert joined(in_steps) == joined(write(message, version))


def test_a_step_is_a_few_elements() -> None:
    count = 100 * STEP_ELEMENTS
    topics = tuple(MetadataRequestTopic(name=f"t{number}") for number in range(count))
    body = joined(write(MetadataRequest(topics=topics), 12))
    request, steps = result_of(read_in_steps(MetadataRequest, 12, memoryview(body)))
    assert (request.topics, steps) == (topics, 100)
    described = tuple(MetadataResponseTopic(name=each.name) for each in topics)
    _, steps = result_of(write_in_steps(MetadataResponse(topics=described), 12))
    assert steps == 100


def test_length_above_the_limit_is_rejected_in_the_first_step() -> None:
    topics = tuple(MetadataRequestTopic(name="t") for _ in range(1_000))
    body = joined(write(MetadataRequest(topics=topics), 12))
    with pytest.raises(ProtocolError, match="too many elements"):
        next(read_in_steps(MetadataRequest, 12, memoryview(body), 999))
