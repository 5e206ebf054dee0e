"""How long a broker that shuts down waits for its controller."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater.broker.node.controlled_shutdown import OnResponse, request_controlled_shutdown
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, RequestTimedOut
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from headwater.protocol.older_versions import Message

TIMEOUT_S = 60
SETTINGS = StaticConfig.parse(
    {
        "controlled.shutdown.max.retries": "3",
        "controlled.shutdown.retry.backoff.ms": "1",
        "controller.socket.timeout.ms": "7000",
    }
).settings


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, TIMEOUT_S))


class Controller:
    """Answers each request with the next outcome, and is silent after the last one."""

    def __init__(self, *outcomes: Message | HeadwaterError) -> None:
        self._outcomes = list(outcomes)
        self.timeouts_ms: list[int] = []
        self.is_connected = True
        self.asked: Callable[[], None] = lambda: None

    def ask(self, timeout_ms: int, answered: OnResponse) -> None:
        self.timeouts_ms.append(timeout_ms)
        if self._outcomes:
            outcome = self._outcomes.pop(0)
            asyncio.get_running_loop().call_soon(answered, outcome)
        self.asked()

    async def request_controlled_shutdown(self) -> None:
        await request_controlled_shutdown(
            self.ask, is_connected=lambda: self.is_connected, settings=SETTINGS
        )


REFUSAL = ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)


def test_completed_controlled_shutdown_stops_at_once() -> None:
    controller = Controller(ControlledShutdownResponse())
    run(controller.request_controlled_shutdown())
    assert controller.timeouts_ms == [7_000]


@pytest.mark.parametrize("outcome", [REFUSAL, RequestTimedOut("no answer")])
def test_controlled_shutdown_is_retried_max_retries_times(
    outcome: Message | HeadwaterError,
) -> None:
    controller = Controller(*[outcome] * 9)
    run(controller.request_controlled_shutdown())
    assert controller.timeouts_ms == [7_000] * 3


def test_broker_without_zookeeper_requests_no_controlled_shutdown() -> None:
    controller = Controller()
    controller.is_connected = False
    run(controller.request_controlled_shutdown())
    assert controller.timeouts_ms == []


def test_broker_that_loses_zookeeper_while_waiting_gives_up() -> None:
    """The controller's response would wait for ZooKeeper, and never come."""
    controller = Controller()

    def disconnect() -> None:
        asyncio.get_running_loop().call_soon(setattr, controller, "is_connected", False)

    controller.asked = disconnect
    run(controller.request_controlled_shutdown())
    assert controller.timeouts_ms == [7_000]
