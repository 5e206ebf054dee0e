"""Fixtures for whoever has Headwater installed: pytest finds them by itself.

    def test_a_message_arrives(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

`headwater_broker` is the same broker as `kafka_broker`, for those who want to say whose it is.

What a reader would get wrong: every pytest run on this machine loads this module, so it imports
nothing until a test asks for a broker.
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
# Kafka allows 249; what is left is for a number, and for whoever builds names from this one.
_NAME_MAX = 200
_COUNT = pytest.StashKey[int]()


class _Shape(TypedDict, total=False):
    """What a marker can say of a topic."""

    partitions: int
    configs: dict[str, str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(partitions=1, configs={{}}): how the topic of the fixture {_MARKER} is made",
    )


@pytest.fixture(scope="session")
def headwater_settings() -> Mapping[str, Value]:
    """The settings of the broker; define a fixture of this name to have others."""
    return {}


@pytest.fixture(scope="session")
def headwater_client_settings() -> Mapping[str, Value]:
    """How the other fixtures reach the broker; define it where that asks for TLS or a login."""
    return {}


@pytest.fixture(scope="session")
def headwater_broker(headwater_settings: Mapping[str, Value]) -> Iterator[EmbeddedBroker]:
    """A broker for all tests of a session."""
    from headwater.testing import BrokerDidNotStart, EmbeddedBroker

    broker = EmbeddedBroker(headwater_settings)
    try:
        broker.start()
    except BrokerDidNotStart as failure:
        broker.close()
        # What the broker says is the message; our own stack would only hide it.
        pytest.fail(str(failure), pytrace=False)
    with broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_broker(headwater_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker for all tests of a session; any Kafka client finds it at `bootstrap_servers`."""
    return headwater_broker


@pytest.fixture(scope="session")
def schema_registry(
    kafka_broker: EmbeddedBroker, headwater_client_settings: Mapping[str, Value]
) -> Iterator[EmbeddedRegistry]:
    """A schema registry on that broker, for all tests of a session; clients find it at `url`."""
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
    """The name of a topic of this test's own: there and empty before it, gone after it.

    `@pytest.mark.kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})` shapes it.
    """
    if not kafka_broker.is_running:
        # A test before this one has stopped it, and not started it again.
        kafka_broker.start()
    from headwater.client import Admin
    from headwater.client.errors import UnknownTopicOrPartition

    name = _topic_name(request)
    reached = {**headwater_client_settings, "bootstrap.servers": kafka_broker.bootstrap_servers}
    with Admin(reached) as admin:
        admin.create_topic(name, **_shape(request.node.get_closest_marker(_MARKER)))
    yield name
    if kafka_broker.is_running:
        with Admin(reached) as admin:
            try:
                admin.delete_topics([name])
            except UnknownTopicOrPartition:
                # The test has deleted it.
                return


def _topic_name(request: pytest.FixtureRequest) -> str:
    """Readable in a log, and never used twice, so that no test meets another one's records."""
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
            f"and not {unknown or list(marker.args)}",
            pytrace=False,
        )
    configs = {name: str(value) for name, value in marker.kwargs.get("configs", {}).items()}
    return {"partitions": marker.kwargs.get("partitions", 1), "configs": configs}
