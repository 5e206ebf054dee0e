"""The broker's access to cluster metadata and to the controller.

Implemented by `standalone_node` for a standalone broker, by `forwarding_manager` in a ZooKeeper
cluster and by `broker_server` in a KRaft cluster.

Note: `image` is this broker's metadata, which in a cluster is slightly behind the controller's.
Decisions must use the image of `controller`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.broker.requests.call import Call
from headwater.common.ids import NodeId
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.topic_creation import Results
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from headwater.protocol.older_versions import Message

if TYPE_CHECKING:
    from headwater.broker.node.cluster_membership import ClusterMembership


class ControllerAccess(Protocol):
    """Cluster metadata and controller requests, for handlers."""

    @property
    def image(self) -> ClusterImage:
        """This broker's metadata."""

    @property
    def has_metadata(self) -> bool:
        """Whether `image` is complete; it is empty for a moment after startup."""

    @property
    def controller(self) -> DeferredEventQueue | None:
        """The controller's event queue; None if another broker is the controller."""

    @property
    def controller_id(self) -> NodeId:
        """The broker that clients are told to send controller requests to."""

    @property
    def is_clustered(self) -> bool:
        """Whether there may be other brokers."""

    @property
    def membership(self) -> ClusterMembership | None:
        """This broker's membership of a ZooKeeper cluster; None in other modes."""

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], on_error: Failed
    ) -> None:
        """Auto-create topics on this broker's or another controller."""

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], on_error: Failed
    ) -> None:
        """Allocate a block of producer ids from the controller."""

    def forward(self, call: Call, request: Message, frame: bytes) -> None:
        """Forward a request to the controller; only if another broker is the controller."""
