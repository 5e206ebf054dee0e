"""A database is mirrored through topics while processes are killed: `make test-eos`.

`make test-cdc MINUTES=10` does the same for longer.
"""

import os
import random
from pathlib import Path

import pytest

from headwater.process.java import NoJava, find_java
from tests.spark.eos.cdc_kills import Trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("is_plain", [True, False], ids=["without Spark", "Spark"])
def test_a_mirror_is_equal_and_has_each_change_once_whatever_is_killed(
    tmp_path: Path, *, is_plain: bool
) -> None:
    try:
        find_java(os.environ)
    except NoJava as reason:
        if not is_plain:
            pytest.skip(str(reason))
    seed = int(os.environ.get("HEADWATER_SEED") or random.randrange(10**6))
    print(f"\nseed {seed}: HEADWATER_SEED={seed} repeats it")
    trial = Trial(tmp_path, print, is_plain=is_plain)
    mirrored = trial.run(seed, seconds=60)
    print(mirrored)
    assert not mirrored.violations
    assert set(mirrored.kills) == set(trial.victims)
    assert mirrored.records > 0
