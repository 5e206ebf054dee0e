"""Configuration of all tests.

Tests never assert timings, since a busy machine must not fail a test; Hypothesis has no deadlines.

With two processes, as in `make test`, the tests of a file run in one process, in order. Tests that
share an expensive fixture (a Spark session, a cluster of real processes) run in the same process,
so that it is started once.

A test may take five minutes. Tests that start many processes have a deadline per step, which says
more about a failure, and may take longer in total, as may tests that are marked slow.
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Restore the format of captured logs.

    pytest adds its handlers to loggers that do not propagate. Those of PySpark, which exist after
    its first error, set the format of their handlers to JSON.
    """
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        plugin.caplog_handler.setFormatter(plugin.formatter)
        plugin.report_handler.setFormatter(plugin.formatter)
