"""Classic groups under faults, from many seeds.

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
def test_classic_groups_keep_their_invariants_under_faults(first_seed: int) -> None:
    """GR-1 to GR-17."""
    live(first_seed, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 1500, 50))
def test_classic_groups_keep_their_invariants_over_many_seeds(first_seed: int) -> None:
    live(first_seed, 50)


def test_the_simulator_reaches_syncs_fencing_and_coordinator_failures() -> None:
    """Otherwise it would show nothing."""
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
