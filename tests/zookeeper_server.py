"""A real ZooKeeper for tests, where there can be one; else they are skipped by name."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.common.exceptions import ServerUnavailable
from headwater.process.zookeeper_jars import find_class_path, find_java
from headwater.testing.embedded_cluster import EmbeddedZooKeeper


def absence() -> str | None:
    """Why there can be no ZooKeeper here, or None if there can."""
    if importlib.util.find_spec("kazoo") is None:
        return "kazoo is not installed"
    try:
        find_java()
        find_class_path()
    except ServerUnavailable as failure:
        return str(failure)
    return None


@contextmanager
def real_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    reason = absence()
    if reason is not None:
        pytest.skip(reason)
    with EmbeddedZooKeeper() as server:
        yield server
