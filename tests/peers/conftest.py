"""Fixtures: one Apache Kafka and one Headwater for all tests of a run."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_4_1, spark_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose peers are missing, with the name of the peer."""
    absence = KAFKA_4_1.absence()
    for item in items:
        if "tests/peers" in item.path.as_posix():
            item.add_marker(pytest.mark.peers)
            if absence is not None:
                item.add_marker(pytest.mark.skip(reason=absence))


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def headwater(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadwaterBroker]:
    with HeadwaterBroker(tmp_path_factory.mktemp("headwater")) as broker:
        yield broker


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests, with Spark's Kafka connector if it is there.

    Jars are on the class path of a JVM only if its first session names them.
    """
    from headwater.spark import session

    logging.getLogger("py4j").setLevel(logging.ERROR)
    peer = spark_connector()
    jars = [] if peer.absence() else sorted(peer.jars.glob("*.jar"))
    spark = session("local[2]", {"spark.jars": ",".join(map(str, jars))})
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def spark_with_connector(spark: "SparkSession") -> "SparkSession":
    """The session for tests that compare Spark's Kafka connector with Headwater's."""
    if absence := spark_connector().absence():
        pytest.skip(absence)
    return spark
