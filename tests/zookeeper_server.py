"""A real ZooKeeper for tests; they are skipped if it cannot be run."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.common.exceptions import ServerUnavailable
from headwater.process.java import find_java
from headwater.process.zookeeper_jars import find_class_path
from headwater.testing.embedded_cluster import EmbeddedZooKeeper


def absence() -> str | None:
    """Return why ZooKeeper cannot be run here, or None."""
    if importlib.util.find_spec("kazoo") is None:
        return "kazoo is not installed"
    try:
        find_java(os.environ)
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
