"""A broker as a process: from its settings to its end by a signal.

A second signal ends a stop that takes too long. What a reader would get wrong: that one is heard
even while the loop is busy with a flush, so it is no callback of the loop; and it is no harm, since
it does what a kill would do.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headwater.broker.node.node import Node
from headwater.broker.node.standalone_node import StandaloneNode
from headwater.common.exceptions import StorageError
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import new_loop

_log = logging.getLogger(__name__)

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# What a shell says of a process that a signal has ended.
_ENDED_BY_SIGNAL = 128


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

    def end_by_signal() -> None:
        for each in _ENDING_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _give_up)
        end(None)

    for each in _ENDING_SIGNALS:
        loop.add_signal_handler(each, end_by_signal)
    node = _new_node(static, end)
    starting = asyncio.ensure_future(node.start())
    either: list[asyncio.Future[Any]] = [starting, ended]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It may wait for ZooKeeper, or for a controller, as long as there is none.
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
    else:
        endpoints = starting.result()
        # What exists now stays. A full collection would look at all of it while nothing is served.
        gc.freeze()
        ready(Serving(endpoints, node.cluster_id))
        await ended
        await node.stop()
    reason = ended.result()
    if reason is not None:
        raise StorageError(reason)


def _new_node(static: StaticConfig, broken: Callable[[str], None]) -> Node:
    if static.settings.zookeeper_connect is None:
        return StandaloneNode(static, broken=broken)
    # Only now: a broker that is alone does without all that a cluster takes.
    from headwater.broker.node.cluster_node import ClusterNode

    return ClusterNode(static, broken=broken)


def _give_up(number: int, _: object) -> None:
    """End at once. Everything that was acknowledged is in the page cache, and stays there."""
    _log.warning("not stopped cleanly, because of a second signal; the next start checks the logs")
    # Threads may be amid a flush, and an exception would wait for them.
    os._exit(_ENDED_BY_SIGNAL + number)


def _report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback of ours failed: say so once, and go on."""
    _log.error("%s", context.get("message"), exc_info=context.get("exception"))
