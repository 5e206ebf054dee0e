"""What tests of clients share."""

import gc
from collections.abc import Iterator

import pytest

from tests.simulation.labs.producer_faces import Asynchronous, Blocking, Face, OpenProducer


@pytest.fixture(params=[Blocking, Asynchronous], ids=lambda face: face.name)
def open_producer(request: pytest.FixtureRequest) -> Iterator[OpenProducer]:
    """Makes producers of either face, and closes them in the end."""
    made: list[Face] = []

    def make(**settings: object) -> Face:
        made.append(request.param(**{"retry.backoff.ms": 1, **settings}))
        return made[-1]

    yield make
    for face in made:
        face.close()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """What a test leaves behind is found in that test, and not in a later one."""
    yield
    gc.collect()
