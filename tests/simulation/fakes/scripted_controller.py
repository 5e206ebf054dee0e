"""A controller of one topic that does only what the script says.

It answers AlterPartition by the rules of ISR-6, and sends every change to every broker, in order
and some time later. It runs on no broker, and so never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    MetadataChange,
    PartitionChanged,
    TopicCreated,
    apply,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
)
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionResult,
    TopicResult,
)
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import FakeNetwork, Reply
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.broker_lab import LISTENER
from tests.simulation.worlds.replica_nodes import CLUSTER_ID, TOPIC, ReplicaNode

CONTROLLER: Final = NodeId(100)
TOPIC_ID: Final = TopicId(b"replicated topic")


class ScriptedController:
    """See the module docstring."""

    def __init__(
        self,
        time: VirtualTime,
        network: FakeNetwork,
        *,
        replicas: Sequence[NodeId],
        configs: Mapping[str, str],
        racks: Mapping[NodeId, str] | None = None,
        partitions: int = 1,
    ) -> None:
        self.time = time
        self.partitions = partitions
        self.racks = racks or {}
        self.nodes: dict[NodeId, ReplicaNode] = {}
        # Called with an ISR that a leader proposed, before it gets it.
        self.granted: Callable[[int, tuple[NodeId, ...]], None] = lambda _, __: None
        self._epochs = 100
        self._arrivals: dict[NodeId, int] = {}
        states = tuple(
            PartitionRegistration(
                replicas=tuple(replicas),
                isr=tuple(replicas),
                leader=replicas[number % len(replicas)],
            )
            for number in range(partitions)
        )
        topic = TopicImage(name=TOPIC, topic_id=TOPIC_ID, partitions=states)
        changes: list[MetadataChange] = [TopicCreated(topic), ControllerElected(CONTROLLER)]
        if configs:
            changes.append(ConfigsReplaced(ConfigResource(ResourceType.TOPIC, TOPIC), configs))
        empty = ClusterImage(cluster_id=CLUSTER_ID)
        self.image = apply(empty, changes, empty.version)
        network.join(CONTROLLER, self._serve)

    @property
    def state(self) -> PartitionRegistration:
        """State of the first partition, which most tests use."""
        return self.state_of(0)

    def state_of(self, number: int) -> PartitionRegistration:
        return self.image.topics[TOPIC].partitions[number]

    def start(self, node: ReplicaNode) -> None:
        """A broker starts, registers and gets the full state."""
        self._epochs += 1
        self.nodes[node.node_id] = node
        self._change(BrokerRegistered(self._registered(node.node_id)))
        node.start(self._epochs, self.image)
        self._arrivals[node.node_id] = self.time.now_ms

    def notice_death(self, node_id: NodeId) -> None:
        """A broker's session ended: remove it as leader, and from the ISR unless it is the last."""
        changes: list[MetadataChange] = [BrokerGone(node_id)]
        for number in range(self.partitions):
            state = self.state_of(number)
            if state.leader == node_id or node_id in state.isr:
                # The last one stays, so that only it can lead again (ISR-7).
                isr = tuple(each for each in state.isr if each != node_id) or state.isr
                leader = state.leader
                if leader == node_id:
                    alive = [each for each in isr if self._is_alive(each) and each != node_id]
                    leader = alive[0] if alive else NO_LEADER
                changes.append(PartitionChanged(TOPIC, number, led_by(state, leader, isr)))
        self._change(*changes)

    def lose_session(self, node: ReplicaNode) -> None:
        """A live broker lost its session: it registers again with a new epoch."""
        self.notice_death(node.node_id)
        self._epochs += 1
        node.broker_epoch = self._epochs
        self._change(BrokerRegistered(self._registered(node.node_id)))
        # Earlier updates are void, so it gets the full state.
        brokers = [BrokerRegistered(each) for each in self.image.brokers.values()]
        states = [
            PartitionChanged(TOPIC, number, self.state_of(number))
            for number in range(self.partitions)
        ]
        self._tell(node, [*brokers, *states])

    def elect_if_possible(self) -> None:
        """Elect a live ISR member for a partition without a leader."""
        for number in range(self.partitions):
            state = self.state_of(number)
            alive = [each for each in state.isr if self._is_alive(each)]
            if state.leader == NO_LEADER and alive:
                self.elect(alive[0], number=number)

    def elect(
        self, leader: NodeId, *, isr: tuple[NodeId, ...] | None = None, number: int = 0
    ) -> None:
        state = self.state_of(number)
        changed = led_by(state, leader, isr or state.isr)
        self._change(PartitionChanged(TOPIC, number, changed))

    def reassign(self, replicas: tuple[NodeId, ...]) -> None:
        state = self.state
        changed = replace(
            state,
            replicas=replicas,
            isr=tuple(each for each in state.isr if each in replicas),
        )
        self._change(PartitionChanged(TOPIC, 0, led_by(changed, state.leader, changed.isr)))

    def _registered(self, node_id: NodeId) -> BrokerRegistration:
        endpoint = BrokerEndpoint(listener=LISTENER, host=f"broker-{node_id}.test", port=9092)
        return BrokerRegistration(
            node_id=node_id,
            epoch=self._epochs,
            rack=self.racks.get(node_id),
            endpoints=(endpoint,),
        )

    def _is_alive(self, node_id: NodeId) -> bool:
        return node_id in self.image.brokers

    def _change(self, *changes: MetadataChange) -> None:
        version = self.image.version
        self.image = apply(self.image, changes, version._replace(sequence=version.sequence + 1))
        for node in self.nodes.values():
            if node.is_up:
                self._tell(node, changes)

    def _tell(self, node: ReplicaNode, changes: Sequence[MetadataChange]) -> None:
        """Each broker gets everything in order, at its own pace."""
        delay_ms = self.time.rand.randint(1, 30)
        if self.time.happens(self.time.weather.delay):
            delay_ms += self.time.rand.randint(0, 1_000)
        arrival_ms = max(self._arrivals.get(node.node_id, 0), self.time.now_ms + delay_ms)
        self._arrivals[node.node_id] = arrival_ms
        epoch = node.broker_epoch

        def deliver() -> None:
            if node.is_up and node.broker_epoch == epoch:
                node.told(changes)

        self.time.after(arrival_ms - self.time.now_ms, deliver)

    # AlterPartition.

    def _serve(self, source: NodeId, request: Message, reply: Reply) -> None:
        assert isinstance(request, AlterPartitionRequest)
        registered = self.image.brokers.get(source)
        if registered is None or registered.epoch != request.broker_epoch:
            reply(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        (topic,) = request.topics
        results = tuple(self._alter(source, asked) for asked in topic.partitions)
        topics = (TopicResult(topic_id=topic.topic_id, partitions=results),)
        reply(AlterPartitionResponse(topics=topics))

    def _alter(self, source: NodeId, asked: PartitionData) -> PartitionResult:
        number = asked.partition_index
        code = self._judge(source, asked)
        if code is ErrorCode.NONE:
            isr = tuple(NodeId(each.broker_id) for each in asked.new_isr_with_epochs)
            self.granted(number, isr)
            state = self.state_of(number)
            changed = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
            self._change(PartitionChanged(TOPIC, number, changed))
        state = self.state_of(number)
        return PartitionResult(
            partition_index=number,
            error_code=code,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
        )

    def _judge(self, source: NodeId, asked: PartitionData) -> ErrorCode:
        """See ISR-6."""
        state = self.state_of(asked.partition_index)
        if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if source != state.leader:
            return ErrorCode.INVALID_REQUEST
        if asked.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in asked.new_isr_with_epochs:
            registered = self.image.brokers.get(NodeId(member.broker_id))
            if registered is None or member.broker_epoch not in (-1, registered.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE
