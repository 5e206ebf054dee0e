"""Pytest fixtures, available wherever Headwater is installed.

    def test_a_message_arrives(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

`headwater_broker` is another name for `kafka_broker`.

Note: every pytest run on this machine loads this module, so it imports nothing until a test uses a
fixture.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

if TYPE_CHECKING:
    from headwater.common.settings.setting_types import Value
    from headwater.testing import (
        EmbeddedBroker,
        EmbeddedRegistry,
        PipelineTest,
        PipelineTestFactory,
    )

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


@pytest.fixture(scope="session")
def headwater_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark session for all tests of the session; override it to use your own."""
    import logging

    from headwater.common.exceptions import HeadwaterError

    try:
        from headwater.spark import session

        found = session("local[2]", log_file=tmp_path_factory.mktemp("spark") / "spark.log")
    except (ImportError, HeadwaterError) as failure:
        pytest.fail(f"Spark does not start: {failure}", pytrace=False)
    # Its log of closed connections would be shown with every failed test.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    yield found
    found.stop()


@pytest.fixture
def pipeline_test(
    kafka_broker: EmbeddedBroker,
    headwater_client_settings: Mapping[str, Value],
    headwater_spark: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[PipelineTestFactory]:
    """Make a test of a pipeline's file: `pipeline_test("orders.yaml", partitions=2)`.

    The file is looked up beside the test first. Topics that the test makes are deleted after it.
    """
    if not kafka_broker.is_running:
        kafka_broker.start()
    from headwater.testing.pipelines.pipeline_test import PipelineTest

    made: list[PipelineTest] = []

    def make(file: Path | str, *, partitions: int = 1) -> PipelineTest:
        found = PipelineTest(
            beside(file),
            bootstrap_servers=kafka_broker.bootstrap_servers,
            spark=headwater_spark,
            folder=tmp_path / f"pipeline-{len(made)}",
            partitions=partitions,
            client_settings=headwater_client_settings,
            registry=lambda: str(request.getfixturevalue("schema_registry").url),
            beside=beside,
        )
        made.append(found)
        return found

    def beside(file: Path | str) -> Path:
        here = request.path.parent / file
        return here if here.exists() else Path(file)

    yield make
    if kafka_broker.is_running:
        for each in made:
            each.close()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show which rows of a sink differ from the expected ones, as a table."""
    rows = sys.modules.get("headwater.testing.pipelines.sink_rows")
    if rows is None or op != "==":
        return None
    sides = (left, right) if isinstance(left, rows.SinkRows) else (right, left)
    found, expected = sides
    if not isinstance(found, rows.SinkRows) or not isinstance(expected, (list, tuple)):
        return None
    from headwater.testing.pipelines.row_diff import row_diff

    return [f"rows of {found.name} are not the expected ones", *row_diff(found, expected)]


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
