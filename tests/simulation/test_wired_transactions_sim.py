"""Transactions on brokers that are killed: whole or absent, from many seeds."""

import pytest

from tests.simulation.simulators.wired_transactions import run


@pytest.mark.parametrize("seed", range(12))
def test_every_transaction_is_whole_or_absent(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"
    assert outcome.commits
