"""What a broker makes of its controller's words: the facts of its own image.

Partition state has one source, the controller, and configs and features have another, the store;
`Reception` brings both into one image and tells of it as a controller would. Requests of former
controllers are refused, and so are those that were meant for this broker before it registered anew,
and those that a later request of the same controller has overtaken.

What a reader would get wrong: it is not the kind of request that decides what becomes of a
partition, but the partition epoch. What is not newer than the image changes nothing, so requests
may come twice. And a replica leaves this broker as soon as a newer state does not name it, whether
or not StopReplica has come to say so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from headwater.cluster.announcements import FULL, LEADER_DURING_DELETE
from headwater.cluster.controller import Told
from headwater.cluster.facts import (
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    Fact,
    KnownToAll,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
    apply,
)
from headwater.cluster.image import (
    NO_LEADER,
    ClusterImage,
    ConfigResource,
    Partition,
    Topic,
    Version,
)
from headwater.cluster.told_brokers import broker_facts
from headwater.model.config_terms import ResourceType
from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_EPOCH, NodeId, TopicPartition
from headwater.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from headwater.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from headwater.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

Order = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest
Trouble = Callable[[TopicPartition], ErrorCode]

# A partition of which only later ones of its topic have been heard.
_UNHEARD: Final = Partition(
    replicas=(), isr=(), leader=NO_LEADER, leader_epoch=NO_EPOCH, partition_epoch=NO_EPOCH
)


def _no_trouble(_: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE


class Reception:
    """A broker's own image, in a cluster of several."""

    def __init__(
        self, image: ClusterImage, told: Told, *, node_id: NodeId, trouble: Trouble = _no_trouble
    ) -> None:
        """`image` is the store's, of which configs, features and rules are taken.

        `told` hears of every change. `trouble` is asked after it for each replica that a request
        was about, and says what keeps this broker from doing as it was told.
        """
        self.image = ClusterImage(
            cluster_id=image.cluster_id,
            version=Version(image.version.controller_epoch, 0),
            controller_id=image.controller_id,
            configs=image.configs,
            features=image.features,
            acls=image.acls,
        )
        self._told = told
        self._node_id = node_id
        self._trouble = trouble
        self._broker_epoch = NO_EPOCH
        self._last: tuple[int, int, int] = (NO_EPOCH, NO_EPOCH, 0)
        # Stopped by order, though the image still names this broker.
        self._dropped: dict[TopicPartition, None] = {}
        self._informed_epoch = NO_EPOCH

    @property
    def is_informed(self) -> bool:
        """Whether a controller has told all there is since this broker registered last."""
        return NO_EPOCH < self._broker_epoch <= self._informed_epoch

    @property
    def knows_what_exists(self) -> bool:
        """Whether a controller has ever told all there is.

        It may be old news, as after a lost session, but nothing that exists is missing from it.
        """
        return self._informed_epoch > NO_EPOCH

    def registered(self, broker_epoch: int) -> None:
        """Take the epoch of this broker's registration; requests to an earlier one are void.

        The epoch is the same if the store confirms a registration that it has already confirmed.
        """
        assert broker_epoch >= self._broker_epoch
        self._broker_epoch = broker_epoch

    def store_changed(self, facts: Sequence[Fact]) -> None:
        """What the store tells. Of partitions and brokers only the controller speaks."""
        heard = [
            fact
            for fact in facts
            if isinstance(fact, KnownToAll | ControllerElected | ControllerGone)
        ]
        self._agree(heard, self.image.version.controller_epoch)

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        refused = self._refusal(request)
        if refused is not None:
            return UpdateMetadataResponse(error_code=refused)
        facts = [
            *self._controller_facts(request),
            *broker_facts(request, self.image, self._node_id),
        ]
        is_full = request.type == FULL
        for state in request.topic_states:
            facts += self._topic_facts(state, is_full=is_full)
        if is_full:
            mentioned = {state.topic_name for state in request.topic_states}
            for name in self.image.topics:
                if name not in mentioned:
                    facts += self._deleted(name)
        self._agree(facts, request.controller_epoch)
        if is_full:
            # It may be of a registration whose answer has not reached this broker yet.
            self._informed_epoch = request.broker_epoch
        return UpdateMetadataResponse()

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        refused = self._refusal(request)
        if refused is not None:
            return LeaderAndIsrResponse(error_code=refused)
        facts: list[Fact] = []
        outcomes = [self._roles(state, facts) for state in request.topic_states]
        self._agree(facts, request.controller_epoch)
        return LeaderAndIsrResponse(
            topics=tuple(
                LeaderAndIsrTopicError(
                    topic_id=state.topic_id,
                    partition_errors=tuple(
                        LeaderAndIsrPartitionError(
                            partition_index=number,
                            error_code=code
                            or self._trouble(TopicPartition(state.topic_name, number)),
                        )
                        for number, code in codes.items()
                    ),
                )
                for state, codes in zip(request.topic_states, outcomes, strict=True)
            )
        )

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        refused = self._refusal(request)
        if refused is not None:
            return StopReplicaResponse(error_code=refused)
        facts: list[Fact] = []
        codes: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                codes[name] = self._stop(name, state, facts)
        self._agree(facts, request.controller_epoch)
        return StopReplicaResponse(
            partition_errors=tuple(
                StopReplicaPartitionError(
                    topic_name=name.topic,
                    partition_index=name.partition,
                    error_code=code or self._trouble(name),
                )
                for name, code in codes.items()
            )
        )

    def _refusal(self, request: Order) -> ErrorCode | None:
        # A larger one is of a registration whose answer has not reached this broker yet.
        if request.broker_epoch < self._broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.image.version.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_epoch == NO_EPOCH:
            # It may be meant for the broker that was here before; if not, it is said again.
            return ErrorCode.BROKER_NOT_AVAILABLE
        place = (request.controller_epoch, request.broker_epoch, request.order)
        if request.order and place <= self._last:
            # Its sender has given it up long ago.
            return ErrorCode.REQUEST_TIMED_OUT
        self._last = max(self._last, place)
        return None

    def _agree(self, facts: Sequence[Fact], controller_epoch: int) -> None:
        before = self.image.version
        if not facts:
            if controller_epoch > before.controller_epoch:
                self.image = replace(self.image, version=Version(controller_epoch, 0))
            return
        self.image = apply(self.image, facts, Version(controller_epoch, before.sequence + 1))
        self._told(self.image, facts)

    # UpdateMetadata.

    def _controller_facts(self, request: UpdateMetadataRequest) -> list[Fact]:
        """Only with a new epoch: afterwards the store may know of the next controller first."""
        is_new = request.controller_epoch > self.image.version.controller_epoch
        controller_id = NodeId(request.controller_id)
        if not is_new or controller_id == self.image.controller_id:
            return []
        return [ControllerElected(controller_id)]

    def _topic_facts(self, state: UpdateMetadataTopicState, *, is_full: bool) -> list[Fact]:
        name = state.topic_name
        known = self.image.topics.get(name)
        is_other = known is not None and known.topic_id != state.topic_id
        if any(each.leader == LEADER_DURING_DELETE for each in state.partition_states):
            return [] if known is None or is_other else self._deleted(name)
        states = {each.partition_index: each for each in state.partition_states}
        if known is None or is_other:
            partitions = [
                _UNHEARD if (each := states.get(number)) is None else _partition(each, _UNHEARD)
                for number in range(max(states, default=-1) + 1)
            ]
            topic = Topic(name=name, topic_id=state.topic_id, partitions=tuple(partitions))
            # What is not among the first that a process hears of was made while it ran.
            is_old = is_full and self._informed_epoch == NO_EPOCH
            born: Fact = TopicKnown(topic) if is_old else TopicCreated(topic)
            return [*self._deleted(name), born] if is_other else [born]
        return self._partition_facts(known, states)

    def _partition_facts(
        self, topic: Topic, states: dict[int, UpdateMetadataPartitionState]
    ) -> list[Fact]:
        facts: list[Fact] = []
        count = len(topic.partitions)
        for number, state in states.items():
            if number < count and state.zk_version > topic.partitions[number].partition_epoch:
                before = topic.partitions[number]
                facts += self._changed(topic.name, number, before, _partition(state, before))
        last = max(states, default=-1)
        if last >= count:
            added = [
                _UNHEARD if (each := states.get(number)) is None else _partition(each, _UNHEARD)
                for number in range(count, last + 1)
            ]
            facts.append(PartitionsAdded(topic.name, tuple(added)))
        return facts

    def _deleted(self, name: str) -> list[Fact]:
        """Configs are the store's affair: those that it has told of may be a namesake's."""
        for number in range(len(self.image.topics[name].partitions)):
            self._dropped.pop(TopicPartition(name, number), None)
        resource = ConfigResource(ResourceType.TOPIC, name)
        values = self.image.configs.get(resource)
        facts: list[Fact] = [TopicDeleted(name)]
        return facts if values is None else [*facts, ConfigsReplaced(resource, values)]

    def _changed(
        self, topic: str, number: int, before: Partition, after: Partition
    ) -> Iterable[Fact]:
        yield PartitionChanged(topic, number, after)
        name = TopicPartition(topic, number)
        if self._node_id in before.replicas and self._node_id not in after.replicas:
            self._dropped.pop(name, None)
            yield PartitionDropped(topic, number, is_deleted=True)
        elif name in self._dropped:
            # What was stopped stays so until LeaderAndIsr gives it a part again.
            yield PartitionDropped(topic, number, is_deleted=False)

    # LeaderAndIsr and StopReplica.

    def _roles(self, state: LeaderAndIsrTopicState, facts: list[Fact]) -> dict[int, ErrorCode]:
        """What is wrong with each partition; what is right becomes facts."""
        topic = self.image.topic_by_id(state.topic_id)
        if topic is None:
            return {
                each.partition_index: ErrorCode.UNKNOWN_TOPIC_ID for each in state.partition_states
            }
        return {
            each.partition_index: self._role(topic, each, facts) for each in state.partition_states
        }

    def _role(
        self, topic: Topic, state: LeaderAndIsrPartitionState, facts: list[Fact]
    ) -> ErrorCode:
        number = state.partition_index
        if number >= len(topic.partitions) or self._node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        before = topic.partitions[number]
        if state.leader_epoch < before.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if state.partition_epoch < before.partition_epoch:
            # In-sync replicas have changed since, and another request has said so.
            return ErrorCode.NONE
        name = TopicPartition(topic.name, number)
        is_known = state.partition_epoch == before.partition_epoch and (
            (state.adding_replicas, state.removing_replicas) == (before.adding, before.removing)
        )
        if not is_known or name in self._dropped:
            self._dropped.pop(name, None)
            after = replace(
                _partition(state, before),
                adding=_nodes(state.adding_replicas),
                removing=_nodes(state.removing_replicas),
            )
            facts.append(PartitionChanged(topic.name, number, after))
        return ErrorCode.NONE

    def _stop(
        self, name: TopicPartition, state: StopReplicaPartitionState, facts: list[Fact]
    ) -> ErrorCode:
        partition = self.image.partition(*name)
        if partition is None or self._node_id not in partition.replicas:
            return ErrorCode.NONE
        # Epochs below zero stand for "in any case".
        if 0 <= state.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._dropped[name] = None
        facts.append(PartitionDropped(*name, is_deleted=state.delete_partition))
        return ErrorCode.NONE


def _partition(
    state: UpdateMetadataPartitionState | LeaderAndIsrPartitionState, before: Partition
) -> Partition:
    replicas = _nodes(state.replicas)
    is_moving_on = replicas == before.replicas
    return Partition(
        replicas=replicas,
        isr=_nodes(state.isr),
        leader=NodeId(state.leader),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version
        if isinstance(state, UpdateMetadataPartitionState)
        else state.partition_epoch,
        # UpdateMetadata does not tell, but neither changes without LeaderAndIsr.
        adding=before.adding if is_moving_on else (),
        removing=before.removing if is_moving_on else (),
    )


def _nodes(ids: tuple[int, ...]) -> tuple[NodeId, ...]:
    # Thousands at once: the numbers are what they were, under their proper name.
    return cast("tuple[NodeId, ...]", ids)
