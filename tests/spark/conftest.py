"""One Spark session for all tests: starting one takes ten seconds and half a gigabyte."""

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    from headwater.spark import session

    logging.getLogger("py4j").setLevel(logging.ERROR)
    found = session("local[2,4]")
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def spark_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"num.partitions": "2"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def headwater_spark(spark: "SparkSession") -> "SparkSession":
    """The session of the fixture `pipeline_test`."""
    return spark
