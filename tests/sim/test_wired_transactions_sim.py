"""Transactions on brokers that die: whole or absent, from many seeds."""

import pytest

from tests.sim.wired_transactions import World


@pytest.mark.parametrize("seed", range(12))
def test_every_transaction_is_whole_or_absent(seed: int) -> None:
    world = World(seed)
    world.run(300)
    world.check()
    assert any(attempt.verdict for attempt in world.attempts)
