"""Fixtures of the producer tests."""

import gc
from collections.abc import Iterator

import pytest

from tests.simulation.labs.producer_faces import Asynchronous, Blocking, Face, OpenProducer


@pytest.fixture(params=[Blocking, Asynchronous], ids=lambda face: face.name)
def open_producer(request: pytest.FixtureRequest) -> Iterator[OpenProducer]:
    """Creates blocking or asyncio producers, and closes them at the end."""
    made: list[Face] = []

    def make(**settings: object) -> Face:
        made.append(request.param(**{"retry.backoff.ms": 1, **settings}))
        return made[-1]

    yield make
    for face in made:
        face.close()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Detect leftovers of a test in that test, not in a later one."""
    yield
    gc.collect()
