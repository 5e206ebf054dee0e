"""A cluster starts on a machine whose cores are busy."""

import shutil

import pytest

from tests.cluster.starts_under_load import busy_cores, start_clusters


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_cluster_starts_beside_other_work() -> None:
    reason = None if shutil.which("stress") else "stress is not installed"
    if reason is not None:
        pytest.skip(reason)
    with busy_cores():
        starts = start_clusters(10)
    assert (starts.failed, starts.assertions) == ([], [])
