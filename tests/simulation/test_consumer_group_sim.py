"""Consumer groups under random faults, from many seeds. A failure names its seed."""

import os
import subprocess
import sys

import pytest

from tests.simulation.simulators.consumer_groups import run

CHUNK = 25


def live(first_seed: int, count: int, steps: int) -> None:
    for seed in range(first_seed, first_seed + count):
        outcome = run(seed, steps=steps)
        tail = "\n".join(outcome.trace[-25:])
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}\n{tail}"


@pytest.mark.parametrize("first_seed", range(1, 401, CHUNK))
def test_no_partition_has_two_readers_and_the_group_becomes_stable(first_seed: int) -> None:
    """NG-3, NG-4, NG-6, NG-7."""
    live(first_seed, CHUNK, steps=200)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 2000, 100))
def test_no_partition_has_two_readers_in_long_runs(first_seed: int) -> None:
    live(first_seed, 100, steps=500)


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    program = (
        "from tests.simulation.simulators.consumer_groups import World\n"
        "world = World(7)\nworld.run(150)\nprint(*world.trace, world.lab.records, sep='\\n')"
    )
    lives = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert lives[0] == lives[1]
    assert len(lives[0].splitlines()) > 150
