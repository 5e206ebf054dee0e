"""What tests of foreign clients share: one broker, topics of their own, each client in turn."""

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
    """One broker with Kafka's defaults, for all tests that make topics of their own."""
    settings = {"headwater.metrics.listener": "127.0.0.1:0"}
    with checked_broker(settings) as broker:
        yield broker


@pytest.fixture
def servers(shared_broker: EmbeddedBroker) -> Iterator[str]:
    """Where the shared broker is. Whatever it complains of during a test is that test's failure."""
    before = len(shared_broker.log_text)
    yield shared_broker.bootstrap_servers
    assert shared_broker.is_running, shared_broker.log_text
    check_log(shared_broker.log_text[before:])


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Each foreign client in turn."""
    chosen: Client = request.param
    yield chosen
    with warnings.catch_warnings():
        # kafka-python forgets to close sockets that could not connect. Found later, they would be
        # held against some other test.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=ADMINS, ids=lambda kind: kind.name)
def admin(request: pytest.FixtureRequest, servers: str) -> Iterator[OpenAdmin]:
    """Each foreign admin client in turn, at the shared broker."""
    with closing(request.param(servers)) as chosen:
        yield chosen
