"""Transactions under random faults, from many seeds.

A failure names its seed: `python -m tests.simulation.simulators.transactions --seed N --trace`
shows every step.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.simulators.transactions import run

CHUNK = 10


def live(first_seed: int, count: int) -> None:
    for seed in range(first_seed, first_seed + count):
        outcome = run(seed)
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}"


@pytest.mark.parametrize("first_seed", range(1, 201, CHUNK))
def test_every_transaction_is_whole_or_absent_over_crashes_and_zombies(first_seed: int) -> None:
    """TX-1 to TX-9, TX-13, TX-14."""
    live(first_seed, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 2000, 100))
def test_every_transaction_is_whole_or_absent_over_a_thousand_seeds(first_seed: int) -> None:
    live(first_seed, 100)


def test_runs_reach_commits_aborts_and_fenced_producers() -> None:
    """A simulator in which nothing happens finds nothing."""
    told = [attempt.told for seed in range(1, 6) for attempt in run(seed).knowledge.attempts]
    assert min(told.count(outcome) for outcome in (True, False, None)) > 10


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    traces = [
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.simulation.simulators.transactions",
                "--seed",
                "3",
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
    assert len(traces[0].splitlines()) > 200
