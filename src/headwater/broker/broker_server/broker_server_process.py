"""Run a KRaft broker as a process until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Callable

from headwater.broker.broker_server.broker_server import BrokerServer
from headwater.broker.node.broker_process import Serving, run_until_signal
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.event_loop import new_loop


def run_broker_server(
    static: StaticConfig, quorum: QuorumSettings, *, ready: Callable[[Serving], None]
) -> None:
    """Run a broker until a signal arrives, then stop it cleanly.

    `ready` is called once the controller has unfenced the broker.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(
            run_until_signal(
                lambda on_failure: BrokerServer(static, quorum, on_failure=on_failure), ready
            )
        )
