"""One Spark session for all tests: starting one takes ten seconds and half a gigabyte.

The JVM of tests stops at its first compiler. Its second one pays off after minutes of the same
queries, and takes a core from short ones until then.
"""

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.standalone import QUICK_JAVA

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
    found = session("local[2,4]", {"spark.driver.extraJavaOptions": QUICK_JAVA})
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
