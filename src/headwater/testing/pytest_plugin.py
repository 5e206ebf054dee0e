"""Pytest fixtures, available wherever Headwater is installed.

    def test_a_message_arrives(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

`headwater_broker` is another name for `kafka_broker`.

Note: every pytest run on this machine loads this module, so it imports nothing until a test uses a
fixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

import pytest

if TYPE_CHECKING:
    from headwater.common.settings.setting_types import Value
    from headwater.testing import EmbeddedBroker, EmbeddedRegistry

_MARKER = "kafka_topic"
# Kafka allows 249; the rest is for the number, and for names derived from this one.
_NAME_MAX = 200
_COUNT = pytest.StashKey[int]()


class _Shape(TypedDict, total=False):
    """The arguments of the marker."""

    partitions: int
    configs: dict[str, str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(partitions=1, configs={{}}): shape of the topic of the fixture {_MARKER}",
    )


@pytest.fixture(scope="session")
def headwater_settings() -> Mapping[str, Value]:
    """Settings of the broker; override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def headwater_client_settings() -> Mapping[str, Value]:
    """Client settings of the fixtures; override them for TLS or SASL."""
    return {}


@pytest.fixture(scope="session")
def headwater_broker(headwater_settings: Mapping[str, Value]) -> Iterator[EmbeddedBroker]:
    """A broker for all tests of the session."""
    from headwater.testing import BrokerDidNotStart, EmbeddedBroker

    broker = EmbeddedBroker(headwater_settings)
    try:
        broker.start()
    except BrokerDidNotStart as failure:
        broker.close()
        # The broker's log is the message; a traceback would only hide it.
        pytest.fail(str(failure), pytrace=False)
    with broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_broker(headwater_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker for all tests of the session; clients use `bootstrap_servers`."""
    return headwater_broker


@pytest.fixture(scope="session")
def schema_registry(
    kafka_broker: EmbeddedBroker, headwater_client_settings: Mapping[str, Value]
) -> Iterator[EmbeddedRegistry]:
    """A schema registry for all tests of the session; clients use its `url`."""
    from headwater.testing import BrokerDidNotStart, EmbeddedRegistry

    registry = EmbeddedRegistry(
        kafka_broker.bootstrap_servers, client_settings=headwater_client_settings
    )
    try:
        registry.start()
    except BrokerDidNotStart as failure:
        registry.close()
        pytest.fail(str(failure), pytrace=False)
    with registry:
        yield registry


@pytest.fixture
def kafka_topic(
    kafka_broker: EmbeddedBroker,
    headwater_client_settings: Mapping[str, Value],
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """The name of a new, empty topic for this test, deleted afterwards.

    `@pytest.mark.kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})` shapes it.
    """
    if not kafka_broker.is_running:
        # An earlier test has stopped it and not restarted it.
        kafka_broker.start()
    from headwater.client import Admin
    from headwater.client.errors import UnknownTopicOrPartition

    name = _topic_name(request)
    client = {**headwater_client_settings, "bootstrap.servers": kafka_broker.bootstrap_servers}
    with Admin(client) as admin:
        admin.create_topic(name, **_shape(request.node.get_closest_marker(_MARKER)))
    yield name
    if kafka_broker.is_running:
        with Admin(client) as admin:
            try:
                admin.delete_topics([name])
            except UnknownTopicOrPartition:
                # The test has deleted it.
                return


def _topic_name(request: pytest.FixtureRequest) -> str:
    """Readable in logs and unique, so that tests do not see each other's records."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", str(request.node.name)).strip("-.")
    made = request.session.stash.get(_COUNT, 0) + 1
    request.session.stash[_COUNT] = made
    return f"{readable[:_NAME_MAX]}-{made}"


def _shape(marker: pytest.Mark | None) -> _Shape:
    if marker is None:
        return {"partitions": 1}
    unknown = sorted({*marker.kwargs} - {"partitions", "configs"})
    if marker.args or unknown:
        pytest.fail(
            f"@pytest.mark.{_MARKER} takes partitions= and configs=, "
            f"not {unknown or list(marker.args)}",
            pytrace=False,
        )
    configs = {name: str(value) for name, value in marker.kwargs.get("configs", {}).items()}
    return {"partitions": marker.kwargs.get("partitions", 1), "configs": configs}
