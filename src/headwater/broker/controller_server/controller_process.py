"""Run a controller as a process until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Callable

from headwater.broker.controller_server.controller_server import ControllerConfig, ControllerServer
from headwater.broker.node.broker_process import Serving, run_until_signal
from headwater.network.event_loop import new_loop


def run_controller(config: ControllerConfig, *, ready: Callable[[Serving], None]) -> None:
    """Run a controller until a signal arrives, then stop it cleanly.

    `ready` is called once the controller serves requests; the quorum may have no leader yet.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run_until_signal(lambda broken: ControllerServer(config, broken=broken), ready))
