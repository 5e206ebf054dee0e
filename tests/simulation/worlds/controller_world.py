"""Several brokers that only have a controller and metadata caches.

The shipped code decides, sends and receives; the store, the network and time are the test's. There
are no logs: leaders propose random ISRs.

Note: the election of a controller is the test's too, as simple as possible; the broker's own has
its own tests.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.alter_partition import alter_partition
from headwater.controller.controller import Controller
from headwater.metadata.changes import ControllerGone, MetadataChange
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, Version
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.liveness import NoLiveness
from headwater.metadata.ports.metadata_store import Registration
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headwater.protocol.messages.stop_replica import StopReplicaRequest
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import FakeNetwork, Reply
from tests.simulation.fakes.shared_metadata_store import SharedStore
from tests.simulation.fakes.virtual_time import VirtualTime

_RETRY_MS = 200


class ControllerWorld:
    """A store, a network, and brokers by number."""

    def __init__(
        self,
        seed: int,
        *,
        texts: dict[str, str] | None = None,
        goes_through_bytes: bool = False,
        checked: Callable[[ClusterImage, ClusterImage], None] | None = None,
        on_changes: Callable[["Node", Sequence[MetadataChange]], None] | None = None,
    ) -> None:
        self.on_changes = on_changes
        self.time = VirtualTime(random.Random(seed))
        self.rand = self.time.rand
        self.store = WatchedStore(self.time, checked)
        self.network = FakeNetwork(self.time, goes_through_bytes=goes_through_bytes)
        self.texts = {"controller.socket.timeout.ms": "3000", **(texts or {})}
        self.nodes: dict[NodeId, Node] = {}

    def start(self, number: int) -> "Node":
        node_id = NodeId(number)
        assert node_id not in self.nodes
        node = self.nodes[node_id] = Node(self, node_id)
        return node

    def crash(self, number: int) -> None:
        node = self.nodes.pop(NodeId(number))
        node.die()
        node.session.crash()
        self.network.leave(node.node_id)

    def stop(self, number: int) -> None:
        """Stop at once, and end the session properly."""
        node = self.nodes.pop(NodeId(number))
        node.die()
        node.session.close()
        self.network.leave(node.node_id)

    def run(self, span_ms: int) -> None:
        self.time.run_for(span_ms)

    @property
    def leading(self) -> Controller:
        """The current controller; there must be one."""
        (found,) = [
            node.leading
            for node in self.nodes.values()
            if node.leading is not None
            and node.leading.image.version.controller_epoch
            == self.store.image.version.controller_epoch
        ]
        return found

    @property
    def image(self) -> ClusterImage:
        """The store's image."""
        return self.store.image

    def partition(self, topic: str = "t", number: int = 0) -> PartitionRegistration:
        found = self.image.partition(topic, number)
        assert found is not None
        return found

    def ask_for_isr(self, name: TopicPartition, isr: Sequence[int], asker: "Node") -> None:
        """As the leader would, from its own image."""
        topic = asker.metadata_cache.image.topics[name.topic]
        known = topic.partitions[name.partition]
        epochs = {node_id: broker.epoch for node_id, broker in self.image.brokers.items()}
        data = PartitionData(
            partition_index=name.partition,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            new_isr_with_epochs=tuple(
                BrokerState(broker_id=each, broker_epoch=epochs.get(NodeId(each), -1))
                for each in isr
            ),
        )
        request = AlterPartitionRequest(
            broker_id=asker.node_id,
            broker_epoch=asker.broker_epoch,
            topics=(TopicData(topic_id=topic.topic_id, partitions=(data,)),),
        )
        for node in self.nodes.values():
            if node.leading is not None:
                node.serve(asker.node_id, request, asker.answers.append)


class WatchedStore(SharedStore):
    """Reports each change to the checks."""

    def __init__(
        self, time: VirtualTime, checked: Callable[[ClusterImage, ClusterImage], None] | None
    ) -> None:
        super().__init__(time)
        self._checked = checked

    def write(self, token: object, changes: Sequence[MetadataChange], fence: Version) -> Version:
        before = self.image
        version = super().write(token, changes, fence)
        if self._checked is not None:
            self._checked(before, self.image)
        return version


class Node:
    """One life of a broker: registers, stands for election, follows its controller."""

    def __init__(self, world: ControllerWorld, node_id: NodeId) -> None:
        self.world = world
        self.node_id = node_id
        self.static = StaticConfig.parse({**world.texts, "broker.id": str(node_id)})
        self.session = world.store.session(node_id)
        self.session.listen(self)
        self.inter_broker_client = world.network.join(node_id, self.serve)
        self.broker_epoch = -1
        self.leading: Controller | None = None
        self.trouble: dict[TopicPartition, ErrorCode] = {}
        self.changes: list[MetadataChange] = []
        self.answers: list[Message] = []
        self._is_alive = True
        self._attempt = 0
        self.metadata_cache = MetadataCache(
            world.store.image,
            self._on_changes,
            node_id=node_id,
            log_dir_error=lambda name: self.trouble.get(name, ErrorCode.NONE),
        )
        self._register()

    def _on_changes(self, _: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        self.changes += changes
        if self.world.on_changes is not None:
            self.world.on_changes(self, changes)

    def die(self) -> None:
        self._is_alive = False
        self._resign()

    # Registration.

    def _register(self) -> None:
        registration = Registration(node_id=self.node_id)
        self.session.register(
            registration,
            then=self._registered,
            on_error=lambda _: self._after(_RETRY_MS, self._register),
        )

    def _registered(self, epoch: int) -> None:
        self.broker_epoch = epoch
        self.metadata_cache.registered(epoch)
        self._stand()

    def session_lost(self) -> None:
        self.broker_epoch = -1
        self._resign()
        self._register()

    def registration_lost(self) -> None:
        self.broker_epoch = -1
        self._register()

    # Election.

    def _stand(self) -> None:
        if self.broker_epoch < 0:
            return
        self._attempt += 1
        attempt = self._attempt
        self.session.become_controller(
            self.node_id,
            then=partial(self._elected, attempt),
            on_error=self._not_elected,
        )

    def _not_elected(self, error: HeadwaterError) -> None:
        if not isinstance(error, ControllerFenced):
            self._after(_RETRY_MS, self._stand)

    def _elected(self, attempt: int, version: Version) -> None:
        self.session.read(
            then=partial(self._lead, attempt, version),
            on_error=lambda _: self._after(_RETRY_MS, self._stand),
        )

    def _lead(self, attempt: int, version: Version, image: ClusterImage) -> None:
        if attempt != self._attempt or image.version != version:
            return
        self._resign()
        self.leading = Controller(
            static=self.static,
            store=self.session,
            inter_broker_client=self.inter_broker_client,
            image=image,
            liveness=NoLiveness(),
            call_later=self._after,
            on_broker_ended=self.session.end_registration,
            on_resigned=self._resigned,
        )
        self.leading.start()

    def _resign(self) -> None:
        if self.leading is not None:
            self.leading.stop()
            self.leading = None

    def _resigned(self, _: HeadwaterError) -> None:
        self.leading = None
        self._after(_RETRY_MS, self._stand)

    # Requests.

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:
        assert version.sequence >= 0
        self.metadata_cache.store_changed(changes)
        if self.leading is not None:
            self.leading.store_changed(changes)
        if any(isinstance(change, ControllerGone) for change in changes):
            self._after(1 + self.world.rand.randrange(50), self._stand)

    def serve(self, _source: NodeId, request: Message, reply: Reply) -> None:
        match request:
            case UpdateMetadataRequest():
                reply(self.metadata_cache.update_metadata(request))
            case LeaderAndIsrRequest():
                reply(self.metadata_cache.leader_and_isr(request))
            case StopReplicaRequest():
                reply(self.metadata_cache.stop_replica(request))
            case AlterPartitionRequest():
                self._alter(request, reply)
            case ControlledShutdownRequest():
                self._shut_down(request, reply)
            case _:
                raise AssertionError(f"unexpected request {request}")

    def _alter(self, request: AlterPartitionRequest, reply: Reply) -> None:
        if self.leading is None:
            reply(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        self.leading.event_queue.submit(
            partial(alter_partition, request=request),
            then=reply,
            on_error=lambda error: reply(AlterPartitionResponse(error_code=error.code)),
        )

    def _shut_down(self, request: ControlledShutdownRequest, reply: Reply) -> None:
        if self.leading is None:
            reply(ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        self.leading.controlled_shutdown(
            request,
            then=reply,
            on_error=lambda error: reply(ControlledShutdownResponse(error_code=error.code)),
        )

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if self._is_alive:
                action()

        self.world.time.after(delay_ms, act)
