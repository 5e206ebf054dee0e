"""Exactly once under kill -9 of broker and worker."""

import random
from pathlib import Path

import pytest

from headwater.testing import EmbeddedBroker
from tests.durability.exactly_once import Plan, check_copy, copy_under_fire, fence_a_zombie, fill


def test_records_are_copied_exactly_once_while_worker_and_broker_are_killed(tmp_path: Path) -> None:
    plan = Plan(records=12_000, per_transaction=250, kills=3)
    rng = random.Random(1)
    with EmbeddedBroker(data_directory=tmp_path) as broker:
        fill(broker.bootstrap_servers, plan)
        fence_a_zombie(broker, plan, rng)
        copy_under_fire(broker, plan, rng)
        check_copy(broker.bootstrap_servers, plan)


@pytest.mark.slow
def test_million_records_are_copied_exactly_once_while_worker_and_broker_are_killed(
    tmp_path: Path,
) -> None:
    plan = Plan(records=1_000_000, per_transaction=1_000, kills=40)
    rng = random.Random(2)
    settings = {"transaction.state.log.segment.bytes": 1_048_576, "log.cleaner.backoff.ms": 500}
    with EmbeddedBroker(settings, data_directory=tmp_path) as broker:
        fill(broker.bootstrap_servers, plan)
        fence_a_zombie(broker, plan, rng)
        deaths = copy_under_fire(broker, plan, rng)
        fence = broker.log_text
        check_copy(broker.bootstrap_servers, plan)
        assert deaths >= plan.kills // 2
        assert "Traceback" not in fence, fence
