"""Groups with both protocols under random faults, from many seeds."""

import pytest

from tests.simulation.simulators.mixed_groups import run

CHUNK = 20


def live(first_seed: int, count: int) -> None:
    for seed in range(first_seed, first_seed + count):
        outcome = run(seed)
        tail = "\n".join(outcome.trace[-25:])
        assert outcome.failure is None, f"seed {seed}\n{outcome.failure}\n{tail}"


@pytest.mark.parametrize("first_seed", range(1, 81, CHUNK))
def test_no_partition_has_two_owners_while_a_group_changes_its_type(first_seed: int) -> None:
    """NG-10."""
    live(first_seed, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 2000, 100))
def test_no_partition_has_two_owners_over_a_thousand_seeds(first_seed: int) -> None:
    live(first_seed, 100)


def test_runs_reach_upgrades_and_downgrades() -> None:
    """A simulator in which nothing happens finds nothing."""
    outcomes = [run(seed) for seed in range(1, 11)]
    assert sum(outcome.upgrades for outcome in outcomes) > 5
    assert sum(outcome.downgrades for outcome in outcomes) > 5
