"""The components of a KRaft controller, as passed to request handlers.

Implements `headwater.broker.requests.controller_context.ControllerContext`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.requests.api_routes import CONTROLLER_APIS, QUORUM_ADMIN_APIS
from headwater.broker.requests.call import Call
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.common.exceptions import ControllerFenced
from headwater.common.ids import NodeId
from headwater.common.ports import Clock, Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.quorum.quorum_controller import QuorumController
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata_store.raft.metadata_loader import MetadataLoader
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.security.authorization.authorizer import (
    Authorizer,
    Operation,
    Resource,
    ResourceKind,
)


@dataclass(slots=True, kw_only=True, eq=False)
class ControllerServices:
    """The components of one controller node."""

    static: StaticConfig
    clock: Clock
    rng: Random
    timer: Timer
    authorizer: Authorizer
    loader: MetadataLoader
    call_soon: Callable[[Callable[[], None]], object]
    # Hands a request of the quorum to the replica of the metadata log.
    receive: Callable[[Message, Callable[[Message], None]], None]
    # None while another node leads the quorum.
    quorum_controller: QuorumController | None = None
    # Of these only the controller mutation quota applies here; None while there are no quotas.
    quotas: QuotaManagers | None = None
    # Whether the ACLs may not all be known yet, so that only super users are authorized.
    is_early_start: bool = False

    @property
    def settings(self) -> BrokerSettings:
        return self.static.settings

    @property
    def node_id(self) -> NodeId:
        return self.static.node_id

    @property
    def image(self) -> ClusterImage:
        """The committed metadata."""
        return self.loader.image

    @property
    def forwarded_apis(self) -> frozenset[ApiKey]:
        return CONTROLLER_APIS | QUORUM_ADMIN_APIS

    @property
    def is_controller(self) -> bool:
        return self.quorum_controller is not None

    @property
    def active_controller(self) -> QuorumController:
        """The active controller; `ControllerFenced` if it is another node."""
        if self.quorum_controller is None:
            raise ControllerFenced("another node is the active controller")
        return self.quorum_controller

    @property
    def controller(self) -> DeferredEventQueue:
        return self.active_controller.event_queue

    def is_authorized(self, call: Call, operation: Operation, resource: Resource) -> bool:
        return self.authorizer.authorize(call.requester, operation, resource)

    def is_authorized_for_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.is_authorized(call, operation, Resource(ResourceKind.TOPIC, topic))

    def is_allowed(self, call: Call, operation: Operation, resource: Resource) -> bool:
        return self.authorizer.allows(call.requester, operation, resource)

    def is_allowed_for_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.is_allowed(call, operation, Resource(ResourceKind.TOPIC, topic))
