"""A Spark session with Delta's jars, for `make test-lake`; all tests here are slow."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipelines.tables.delta_setup import delta_conf, why_no_delta
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.peers.jars import DELTA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.lake)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(1800))


def jars_conf() -> dict[str, str]:
    """The jars of Delta from the cache folder, instead of a download."""
    return {"spark.jars": ",".join(str(each) for each in sorted(DELTA.jars.glob("*.jar")))}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    if absence := why_no_delta() or DELTA.absence():
        pytest.skip(absence)
    from headwater.spark import session

    logging.getLogger("py4j").setLevel(logging.ERROR)
    found = session("local[2,4]", delta_conf(jars_conf()))
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def spark_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"num.partitions": "2"}) as broker:
        yield broker
