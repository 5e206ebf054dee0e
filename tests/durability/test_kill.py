"""kill -9: the page cache outlives the process, so no acknowledged record may be lost."""

import random
from pathlib import Path

import pytest

from headwater.testing import EmbeddedBroker
from tests.durability.killing import check_log, kill_again_and_again


def test_broker_killed_under_load_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(data_directory=tmp_path) as broker:
        load = kill_again_and_again(broker, times=3, rng=random.Random(1))
        check_log(broker, load)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_broker_killed_many_times_with_small_segments(tmp_path: Path, seed: int) -> None:
    """Rolls, snapshots and checkpoints are frequent, so that kills interrupt them."""
    settings = {
        "log.segment.bytes": "1048576",
        "log.flush.offset.checkpoint.interval.ms": "50",
        "replica.high.watermark.checkpoint.interval.ms": "50",
    }
    with EmbeddedBroker(data_directory=tmp_path, settings=settings) as broker:
        load = kill_again_and_again(broker, times=20, rng=random.Random(seed))
        check_log(broker, load)
