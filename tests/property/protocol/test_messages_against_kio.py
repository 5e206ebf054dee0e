"""Every served version of every message, compared with kio's bytes."""

from collections.abc import Callable
from random import Random

import pytest

from headwater.protocol.api_table import Api
from headwater.protocol.codec import request_class, response_class
from headwater.protocol.older_versions import Message, older_class
from headwater.protocol.versioned_codec import codec_for
from tests.property.protocol.kio_judge import (
    JUDGED,
    as_kio,
    differing_defaults,
    kio_bytes,
    kio_request,
    kio_response,
    random_message,
)
from tests.unit.protocol.bytes_of import joined

SEEDS = 8

DIRECTIONS: dict[str, tuple[Callable[[int], type[Message]], Callable[[Api, int], type]]] = {
    "request": (request_class, kio_request),
    "response": (response_class, kio_response),
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_encoding_equals_kios_in_every_version(api: Api, direction: str) -> None:
    shape_of, kio_class_of = DIRECTIONS[direction]
    for version in range(api.oldest, api.newest + 1):
        shape: type = older_class(shape_of(api.key), version) or shape_of(api.key)
        kio_class = kio_class_of(api, version)
        layout = codec_for(shape, version, flexible=api.is_flexible(version))
        for seed in range(SEEDS):
            message = random_message(Random(seed), shape, kio_class, version)
            encoded = joined(layout.write(message))
            assert encoded == kio_bytes(as_kio(message, kio_class, version)), (version, seed)
            assert layout.read(memoryview(encoded)) == message, (version, seed)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_defaults_equal_kafkas(api: Api, direction: str) -> None:
    """Handlers see a field that an old version lacks as in Kafka."""
    shape_of, kio_class_of = DIRECTIONS[direction]
    for version in range(api.oldest, api.newest + 1):
        shape: type = older_class(shape_of(api.key), version) or shape_of(api.key)
        assert list(differing_defaults(shape, kio_class_of(api, version), version)) == []
