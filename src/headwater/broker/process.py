"""A broker as a process: from its settings to its end by a signal."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.broker.node import Node
from headwater.cluster.effective import StaticConfig
from headwater.model.failures import StorageError
from headwater.net.endpoint import Endpoint
from headwater.net.loop import new_loop

_log = logging.getLogger(__name__)

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Serving:
    """What there is to say of a broker when it serves."""

    endpoints: Sequence[Endpoint]
    cluster_id: str


def run_broker(static: StaticConfig, *, ready: Callable[[Serving], None]) -> None:
    """Serve until a signal says stop, then stop cleanly. `ready` is called once it serves.

    What cannot be started raises; so does a broker that its disks leave.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run(static, ready))


async def _run(static: StaticConfig, ready: Callable[[Serving], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    ended: asyncio.Future[str | None] = loop.create_future()

    def end(reason: str | None) -> None:
        if not ended.done():
            ended.set_result(reason)

    for each in _ENDING_SIGNALS:
        loop.add_signal_handler(each, end, None)
    node = Node(static, broken=end)
    endpoints = await node.start()
    ready(Serving(endpoints, node.cluster_id))
    reason = await ended
    await node.stop()
    if reason is not None:
        raise StorageError(reason)


def _report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback of ours failed: say so once, and go on."""
    _log.error("%s", context.get("message"), exc_info=context.get("exception"))
