"""Fixtures of tests with other clients: a shared broker, topics, each client in turn."""

import gc
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.testing import EmbeddedBroker
from tests.compat.admins import ADMINS, OpenAdmin
from tests.compat.brokers import check_log, checked_broker
from tests.compat.clients import Client
from tests.compat.judges import CLIENTS


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[EmbeddedBroker]:
    """One broker with Kafka's defaults, for all tests that create their own topics."""
    settings = {"headwater.metrics.listener": "127.0.0.1:0"}
    with checked_broker(settings) as broker:
        yield broker


@pytest.fixture
def servers(shared_broker: EmbeddedBroker) -> Iterator[str]:
    """The shared broker's address. Errors in its log during a test fail that test."""
    before = len(shared_broker.log_text)
    yield shared_broker.bootstrap_servers
    assert shared_broker.is_running, shared_broker.log_text
    check_log(shared_broker.log_text[before:])


@pytest.fixture
def topic() -> str:
    """A unique topic name."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Each client library in turn."""
    chosen: Client = request.param
    yield chosen
    with warnings.catch_warnings():
        # kafka-python does not close sockets that could not connect. Found later, they would be
        # attributed to some other test.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=ADMINS, ids=lambda kind: kind.name)
def admin(request: pytest.FixtureRequest, servers: str) -> Iterator[OpenAdmin]:
    """Each admin client in turn, connected to the shared broker."""
    with closing(request.param(servers)) as chosen:
        yield chosen
