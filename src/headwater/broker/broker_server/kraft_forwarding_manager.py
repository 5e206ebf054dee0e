"""Forward requests to the active controller of the quorum (KIP-590)."""

from collections.abc import Callable

from headwater.broker.broker_server.broker_metadata_publisher import BrokerMetadataPublisher
from headwater.broker.inter_broker.node_to_controller_channel_manager import (
    NodeToControllerChannelManager,
)
from headwater.broker.node.forwarding_manager import ForwardingManager
from headwater.common.ids import NodeId
from headwater.common.ports import Clock, Random
from headwater.controller.controller_channel_manager import CallLater
from headwater.metadata.cluster_image import NO_CONTROLLER, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.older_versions import Message


class KRaftForwardingManager(ForwardingManager):
    """`headwater.broker.node.controller_access.ControllerAccess` of a KRaft broker."""

    membership = None
    controller = None

    def __init__(
        self,
        static: StaticConfig,
        *,
        publisher: BrokerMetadataPublisher,
        channel: NodeToControllerChannelManager,
        broker_epoch: Callable[[], int],
        clock: Clock,
        rng: Random,
        call_later: CallLater,
    ) -> None:
        super().__init__(static, clock=clock, rng=rng, call_later=call_later)
        self._publisher = publisher
        self._channel = channel
        self._broker_epoch = broker_epoch

    @property
    def image(self) -> ClusterImage:
        return self._publisher.image

    @property
    def has_metadata(self) -> bool:
        return self._publisher.has_published

    @property
    def controller_id(self) -> NodeId:
        """This broker if it is live, else another one.

        Clients cannot reach controllers, and brokers forward. Kafka names any live broker; this one
        spares the client a connection.
        """
        brokers = self.image.brokers
        if self._static.node_id in brokers:
            return self._static.node_id
        return next(iter(brokers), NO_CONTROLLER)

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    def send_to_controller(
        self,
        request: Message,
        *,
        then: Callable[[Message], None],
        on_error: Failed,
        timeout_ms: int | None = None,
    ) -> None:
        self._channel.send_request(
            request,
            timeout_ms=timeout_ms or self._static.settings.request_timeout_ms,
            then=then,
            on_error=on_error,
        )
