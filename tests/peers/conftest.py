"""Peers as fixtures: one Apache Kafka and one Headwater for all tests of a run."""

from collections.abc import Iterator

import pytest

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_4_1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the peers, and says by name why it does not run without them."""
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
