"""A node with `process.roles=broker,controller` (Kafka: KafkaRaftServer).

Controller and broker are what they are on nodes of their own, except that they share the replica of
the metadata log. The broker registers with the active controller over the network, whichever node
that is.
"""

import asyncio
from collections.abc import Callable

from headwater.broker.broker_server.broker_server import BrokerServer
from headwater.broker.controller_server.controller_server import ControllerConfig, ControllerServer
from headwater.broker.node.broker_process import Serving, run_until_signal
from headwater.common.settings.quorum_settings import QuorumSettings
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import Endpoint
from headwater.network.event_loop import new_loop


class CombinedServer:
    """A controller and a broker on the running event loop."""

    def __init__(
        self,
        broker: StaticConfig,
        controller: ControllerConfig,
        *,
        on_failure: Callable[[str], None],
    ) -> None:
        self._controller = ControllerServer(controller, broken=on_failure)
        self._broker = BrokerServer(
            broker, controller.quorum, on_failure=on_failure, controller=self._controller
        )

    @property
    def cluster_id(self) -> str:
        return self._controller.cluster_id

    async def start(self) -> list[Endpoint]:
        """Return the broker's endpoints once it is unfenced, which needs a quorum."""
        await self._controller.start()
        try:
            return await self._broker.start()
        except BaseException:
            await self._controller.stop()
            raise

    async def stop(self) -> None:
        """Stop the broker first: its leaderships are moved by the quorum."""
        await self._broker.stop()
        await self._controller.stop()


def run_combined_server(
    broker: StaticConfig,
    controller: StaticConfig,
    quorum: QuorumSettings,
    *,
    ready: Callable[[Serving], None],
) -> None:
    """Run a node with both roles until a signal arrives, then stop it cleanly."""
    config = ControllerConfig(controller, quorum)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(
            run_until_signal(
                lambda on_failure: CombinedServer(broker, config, on_failure=on_failure), ready
            )
        )
