"""Back-to-back transactions of pipelining producers on three brokers, from many seeds.

Before batches waited behind earlier ones of their producer, and before a question was asked again
with a new ticket, each of these seeds failed: 0 with OUT_OF_ORDER_SEQUENCE_NUMBER, 2 with
INVALID_TXN_STATE. Seed 11 has a marker that is written while a question is under way.
"""

import pytest

from tests.sim.pipelined_transactions import run


@pytest.mark.parametrize("seed", range(12))
def test_no_transaction_fails_while_no_broker_does(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"
    assert outcome.commits


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 5_000, 1_000))
def test_no_transaction_fails_over_many_runs(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        outcome = run(seed, transactions=30)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"
