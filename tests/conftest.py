"""What holds for all tests.

Timings are benchmarks and never verdicts: a busy machine must not fail a test, so Hypothesis is
told not to look at the clock.

With two processes, as `make test` has it, a file's tests stay together and in order. Those of one
heavy surrounding (a Spark session, a cluster of real processes) stay with one process, or it would
be started twice.

A test may take five minutes. Those that start many processes have deadlines of their own for each
of their steps, which say more about what went wrong; so they may take longer in all, and so may
those that are slow by intention.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
HEAVY = ("spark", "cluster")
LONG = (*HEAVY, "compat", "durability")
LONG_S = 900
SLOW_S = 1_800

settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.path.relative_to(TESTS)
        group = place.parts[0] if place.parts[0] in HEAVY else str(place)
        item.add_marker(pytest.mark.xdist_group(group))
        if item.get_closest_marker("timeout") is not None:
            continue
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.timeout(SLOW_S))
        elif place.parts[0] in LONG:
            item.add_marker(pytest.mark.timeout(LONG_S))
