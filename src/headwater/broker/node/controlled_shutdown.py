"""Controlled shutdown, on the broker that shuts down.

The broker asks the controller to move its leaderships to other brokers, and keeps serving
meanwhile. The wait is bounded: at most `controlled.shutdown.max.retries` requests, each with a
timeout of `controller.socket.timeout.ms`. Without ZooKeeper no controller can act, so the broker
gives up as soon as it is disconnected.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from headwater.protocol.older_versions import Message

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2

OnResponse = Callable[[Message | HeadwaterError], None]
Ask = Callable[[int, OnResponse], None]
"""Sends one ControlledShutdown request with a timeout in ms and reports its outcome."""


async def request_controlled_shutdown(
    ask: Ask, *, is_connected: Callable[[], bool], settings: BrokerSettings
) -> None:
    """Return when the controller has moved all leaderships, or after the last retry."""
    for attempt in range(settings.controlled_shutdown_max_retries):
        if attempt:
            await asyncio.sleep(settings.controlled_shutdown_retry_backoff_ms / 1_000)
        if not is_connected():
            _log.warning("ZooKeeper is disconnected; stopping without controlled shutdown")
            return
        if await _is_shutdown_complete(ask, is_connected, settings.controller_socket_timeout_ms):
            return
    _log.warning("Controlled shutdown did not complete; stopping without it")


async def _is_shutdown_complete(
    ask: Ask, is_connected: Callable[[], bool], timeout_ms: int
) -> bool:
    answer: asyncio.Future[Message | HeadwaterError] = asyncio.get_running_loop().create_future()

    def answered(outcome: Message | HeadwaterError) -> None:
        if not answer.done():
            answer.set_result(outcome)

    ask(timeout_ms, answered)
    while not answer.done() and is_connected():
        await asyncio.wait([answer], timeout=_POLL_S)
    if not answer.done():
        return False
    response = answer.result()
    if isinstance(response, HeadwaterError):
        _log.warning("ControlledShutdown request failed: error=%s", response)
        return False
    assert isinstance(response, ControlledShutdownResponse)
    if response.error_code or response.remaining_partitions:
        _log.warning(
            "Controlled shutdown is incomplete: error=%s remaining_partitions=%d",
            ErrorCode(response.error_code).name,
            len(response.remaining_partitions),
        )
        return False
    return True
