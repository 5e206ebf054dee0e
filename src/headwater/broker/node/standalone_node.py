"""A standalone broker, which stores its metadata and is its own controller."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.node.node import Node, known_cluster_id, new_cluster_id
from headwater.broker.node.topic_adoption import adopt
from headwater.broker.requests.call import Call
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.common.ports import Random
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.elect_leaders import bump_leader_epochs
from headwater.controller.producer_id_control import allocate_producer_ids
from headwater.controller.topic_creation import Results, create_on_first_use
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import of_new_cluster
from headwater.metadata.ports.metadata_store import Failed, Registration
from headwater.metadata_store.standalone import standalone_store
from headwater.metadata_store.standalone.standalone_store import StandaloneStore
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.protocol.older_versions import Message
from headwater.storage.log_manager.log_directory_scan import scan_log_directories

_log = logging.getLogger(__name__)


class StandaloneNode(Node):
    """A `Node` without ZooKeeper and without other brokers."""

    async def _open_store(self) -> ClusterImage:
        known_id = known_cluster_id(self._disk, self._paths)
        known_id = known_id or StandaloneStore.cluster_id_in(self._disk, self._paths[0])
        self.cluster_id = known_id or new_cluster_id(self._rng)
        self._store = StandaloneStore.open(
            self._disk,
            self._executor,
            self._paths[0],
            cluster_id=self.cluster_id,
            first=[*of_new_cluster(), *self._adopted()],
        )
        return await self._read_image()

    def _new_controller_access(self) -> ControllerAccess:
        empty = ClusterImage(cluster_id=self.cluster_id)
        self._controller = DeferredEventQueue(self._store, empty, self._changed)
        return StandaloneAccess(self._static, self._controller, self._rng)

    async def _join(self, registration: Registration) -> None:
        registered: asyncio.Future[int] = self._loop.create_future()
        self._store.register(
            registration, then=registered.set_result, on_error=registered.set_exception
        )
        await registered
        elected: asyncio.Future[Version] = self._loop.create_future()
        self._store.become_controller(
            self._static.node_id, then=elected.set_result, on_error=elected.set_exception
        )
        await elected
        image = await self._read_image()
        self._controller.take_over(image)
        self._partitions.changed(image, ())
        self._apply_initial_configs(image)
        if not all(each.was_clean for each in self._directories.serving()):
            await self._renew_leaderships()
        self._coordinators.groups.changed(self._controller.image, ())
        self._coordinators.transactions.changed(self._controller.image)
        self.dispatch.announce(self._controller.image)
        self._start_background_tasks()

    async def _await_metadata(self) -> None:
        """Metadata is complete as soon as the store has been read."""

    def _broker_epoch(self) -> int:
        return self.broker.image.brokers[self._static.node_id].epoch

    async def _close_store(self) -> None:
        self._store.close()

    async def _take_leave(self) -> None:
        """Nothing to do: there is no other broker to move leaderships to."""

    def _replicas(self) -> None:
        return None

    def _inter_broker_client_or_none(self) -> None:
        return None

    def _brokers_listener(self) -> None:
        return None

    def _directory_failed(self) -> None:
        """Nothing to do: no other broker has replicas of its partitions."""

    def _tick(self) -> None:
        """Nothing to do beyond the shared background tasks."""

    def _store_failure(self) -> HeadwaterError | None:
        return self._store.failure

    def _adopted(self) -> list[MetadataChange]:
        """Return topics for logs that already exist, at the first start only."""
        if self._disk.status(self._paths[0] / standalone_store.FILE_NAME) is not None:
            return []
        empty = ClusterImage(cluster_id=self.cluster_id, is_standalone=True)
        found = scan_log_directories(self._disk, self._paths)
        if found:
            _log.warning(
                "Adopting logs of another cluster: partitions=%d; retention is disabled for their "
                "topics until it is configured",
                len(found),
            )
        return adopt(empty, found, self._static.settings, self._rng)

    async def _renew_leaderships(self) -> None:
        renewed: asyncio.Future[None] = self._loop.create_future()
        self._controller.submit(
            partial(bump_leader_epochs, node_id=self._static.node_id),
            then=renewed.set_result,
            on_error=renewed.set_exception,
        )
        await renewed

    async def _read_image(self) -> ClusterImage:
        found: asyncio.Future[ClusterImage] = self._loop.create_future()
        self._store.read(then=found.set_result, on_error=found.set_exception)
        return await found


# ControllerAccess of a broker that is its own controller.
class StandaloneAccess:
    """`ControllerAccess` without other brokers."""

    def __init__(self, static: StaticConfig, controller: DeferredEventQueue, rng: Random) -> None:
        self._static = static
        self._rng = rng
        self.controller = controller
        self.membership = None
        self.has_metadata = True
        self.is_clustered = False

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def controller_id(self) -> NodeId:
        return self.image.controller_id

    def create_topics(
        self, names: Sequence[str], *, then: Callable[[Results], None], on_error: Failed
    ) -> None:
        self.controller.submit(
            partial(create_on_first_use, names=names, static=self._static, rng=self._rng),
            then=then,
            on_error=on_error,
        )

    def allocate_producer_ids(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], on_error: Failed
    ) -> None:
        node_id = self._static.node_id
        own = self.controller.proposed.brokers[node_id]
        request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=own.epoch)
        self.controller.submit(
            partial(allocate_producer_ids, request=request), then=then, on_error=on_error
        )

    def forward(self, call: Call, request: Message, frame: bytes) -> None:  # noqa: ARG002
        raise AssertionError(f"a standalone broker cannot forward {call}")
