"""A short run of the fault script; `make test-faults` has the long one."""

from pathlib import Path

import pytest

from tests.cluster.faults.fault_plan import Store
from tests.cluster.faults.trial import Trial
from tests.zookeeper_server import absence

SECONDS = 60


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", Store)
def test_cluster_keeps_its_guarantees_through_a_minute_of_faults(
    tmp_path: Path, store: Store
) -> None:
    reason = absence() if store is Store.ZOOKEEPER else None
    if reason is not None:
        pytest.skip(reason)
    told: list[str] = []
    outcome = Trial(tmp_path, told.append, store).run(seed=1, seconds=SECONDS)
    assert outcome.violations == [], told
    assert outcome.acknowledged > 0
