"""Committed offsets under random faults, from many seeds."""

import pytest

from tests.simulation.simulators.committed_offsets import run

CHUNK = 50


@pytest.mark.parametrize("first_seed", range(0, 200, CHUNK))
def test_no_acknowledged_commit_is_lost_and_no_aborted_one_is_seen(first_seed: int) -> None:
    """TX-12, GR-11."""
    for seed in range(first_seed, first_seed + CHUNK):
        outcome = run(seed)
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}"
