"""The storage engine under random crashes, from many seeds.

A failure names its seed: `python -m tests.simulation.simulators.storage --seed N --trace` shows
every step.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.simulators.storage import run

CHUNK = 10


def live(first_seed: int, count: int, steps: int) -> None:
    for seed in range(first_seed, first_seed + count):
        outcome = run(seed, steps=steps)
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}"


@pytest.mark.parametrize("first_seed", range(1, 161, CHUNK))
def test_logs_keep_their_guarantees_over_crashes(first_seed: int) -> None:
    live(first_seed, CHUNK, steps=150)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 3000, 100))
def test_logs_keep_their_guarantees_over_long_runs(first_seed: int) -> None:
    live(first_seed, 100, steps=300)


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    traces = [
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.simulation.simulators.storage",
                "--seed",
                "3",
                "--steps",
                "80",
                "--trace",
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) > 80
