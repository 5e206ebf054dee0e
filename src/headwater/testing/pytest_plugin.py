"""Fixtures for whoever has Headwater installed: pytest finds them by itself.

    def test_a_message_arrives(headwater_broker: EmbeddedBroker) -> None:
        producer = Producer({"bootstrap.servers": headwater_broker.bootstrap_servers})

What a reader would get wrong: every pytest run on this machine loads this module, so it imports
nothing until a test asks for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater.model.setting_kinds import Value
    from headwater.testing import EmbeddedBroker


@pytest.fixture(scope="session")
def headwater_settings() -> Mapping[str, Value]:
    """The settings of `headwater_broker`; define a fixture of this name to have others."""
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
