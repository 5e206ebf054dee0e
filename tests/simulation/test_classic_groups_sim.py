"""Classic groups through many random storms, each from one seed.

A failure names its seed: `python -m tests.simulation.simulators.classic_groups --seed N --trace`
shows every step.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.simulators.classic_groups import run

CHUNK = 5


def live(first_seed: int, count: int) -> None:
    for seed in range(first_seed, first_seed + count):
        outcome = run(seed)
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}"


@pytest.mark.parametrize("first_seed", range(1, 101, CHUNK))
def test_every_promise_holds_over_storms(first_seed: int) -> None:
    """GR-1 to GR-17."""
    live(first_seed, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 1500, 50))
def test_every_promise_holds_over_many_storms(first_seed: int) -> None:
    live(first_seed, 50)


def test_a_storm_is_a_storm() -> None:
    """Members sync, are fenced, and lose their coordinator, or nothing would be shown."""
    outcome = run(4)
    assert outcome.syncs > 20
    assert outcome.fences > 3
    assert outcome.crashes > 2


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.simulation.simulators.classic_groups",
        "--seed",
        "3",
        "--trace",
    ]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) > 80
