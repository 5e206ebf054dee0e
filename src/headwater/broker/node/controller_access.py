"""How a broker stands to its cluster: alone in it (`standalone`), or one of several
(`forwarding_manager`).

What a reader would get wrong: `image` is what this broker knows, and in a cluster that is a little
behind what the controller has decided. Whoever decides asks `controller` for the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.broker.requests.call import Call
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.topic_creation import Results
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from headwater.protocol.older_versions import Message

if TYPE_CHECKING:
    from headwater.broker.node.cluster_membership import ClusterMembership


class ControllerAccess(Protocol):
    """What handlers ask of the cluster."""

    @property
    def image(self) -> ClusterImage:
        """What this broker knows of the cluster."""

    @property
    def has_metadata(self) -> bool:
        """Whether `image` has all there is; it is empty for a moment after a start."""

    @property
    def controller(self) -> DeferredEventQueue | None:
        """Who decides for the cluster; None where another broker does."""

    @property
    def membership(self) -> ClusterMembership | None:
        """What it is to be one of several; None for a broker that is alone."""

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], otherwise: Failed
    ) -> None:
        """Have topics made that are used for the first time, whoever decides."""

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], otherwise: Failed
    ) -> None:
        """Have a block of producer ids, whoever decides."""

    def forward(self, call: Call, request: Message, frame: bytes) -> None:
        """Have a request answered by the controller. Only where another broker decides."""
