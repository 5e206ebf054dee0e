"""Run a broker as a process until SIGTERM or SIGINT.

A second signal ends a shutdown that takes too long. Its handler is a real signal handler, not a
callback of the loop, so it runs even while the loop is blocked by a flush. It is as safe as
SIGKILL.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from headwater.broker.node.node import Node
from headwater.broker.node.standalone_node import StandaloneNode
from headwater.common.exceptions import StorageError
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import new_loop

_log = logging.getLogger(__name__)

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The exit status that a shell reports for a process ended by a signal is 128 + signal number.
_ENDED_BY_SIGNAL = 128


@dataclass(frozen=True, slots=True)
class Serving:
    """What a started broker reports to `ready`."""

    endpoints: Sequence[Endpoint]
    cluster_id: str


class RunningNode(Protocol):
    """A broker or controller, started once and stopped once."""

    @property
    def cluster_id(self) -> str: ...

    async def start(self) -> list[Endpoint]: ...

    async def stop(self) -> None: ...


NewNode = Callable[[Callable[[str], None]], RunningNode]
"""Creates a node; it calls back with the reason if it cannot continue."""


def run_broker(static: StaticConfig, *, ready: Callable[[Serving], None]) -> None:
    """Run a broker until a signal arrives, then stop it cleanly.

    `ready` is called once the broker serves requests. Raises if the broker cannot start, or if all
    of its log directories have failed.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run_until_signal(partial(_new_node, static), ready))


async def run_until_signal(new_node: NewNode, ready: Callable[[Serving], None]) -> None:
    """Start a node on this event loop, and stop it when a signal arrives or it breaks."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_exception)
    ended: asyncio.Future[str | None] = loop.create_future()

    def end(reason: str | None) -> None:
        if not ended.done():
            ended.set_result(reason)

    def end_by_signal() -> None:
        for each in _ENDING_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _exit_at_once)
        end(None)

    for each in _ENDING_SIGNALS:
        loop.add_signal_handler(each, end_by_signal)
    node = new_node(end)
    starting = asyncio.ensure_future(node.start())
    either: list[asyncio.Future[Any]] = [starting, ended]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may be waiting for ZooKeeper or for a controller.
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
    else:
        endpoints = starting.result()
        # These objects live as long as the process. Without this, a full collection would scan all
        # of them while no request is served.
        gc.freeze()
        ready(Serving(endpoints, node.cluster_id))
        await ended
        await node.stop()
    reason = ended.result()
    if reason is not None:
        raise StorageError(reason)


def _new_node(static: StaticConfig, on_failure: Callable[[str], None]) -> Node:
    if static.settings.zookeeper_connect is None:
        return StandaloneNode(static, on_failure=on_failure)
    # Imported only here: a standalone broker needs none of the cluster's modules.
    from headwater.broker.node.cluster_node import ClusterNode

    return ClusterNode(static, on_failure=on_failure)


def _exit_at_once(number: int, _: object) -> None:
    """Exit at once. Acknowledged records are in the page cache and survive."""
    _log.warning("Unclean shutdown after a second signal; the next start recovers the logs")
    # Threads may be in the middle of a flush, and an exception would wait for them.
    os._exit(_ENDED_BY_SIGNAL + number)


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception from a callback and keep running."""
    _log.error("%s", context.get("message"), exc_info=context.get("exception"))
