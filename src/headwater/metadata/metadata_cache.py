"""The metadata cache: a broker's image, built from its controller's requests.

Partition states come from the controller, configs, features and ACLs from the store;
`MetadataCache` combines both in one image and notifies the broker of each change. It rejects
requests of former controllers, requests for an earlier registration of this broker, and requests
that were overtaken by a later one of the same controller.

Note: the partition epoch decides, not the type of the request. A state that is not newer than the
image changes nothing, so requests may arrive twice. A replica is removed from this broker as soon
as a newer state does not contain it, whether or not StopReplica has arrived.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_EPOCH, NodeId, TopicPartition
from headwater.metadata.changes import (
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    ImageListener,
    KnownToAll,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
    apply,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata.control_requests import FULL, LEADER_DURING_DELETE
from headwater.metadata.live_brokers import broker_changes
from headwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from headwater.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

ControlRequest = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest
LogDirError = Callable[[TopicPartition], ErrorCode]

# Placeholder for a partition if only higher numbers of its topic have been received.
_PLACEHOLDER: Final = PartitionRegistration(
    replicas=(), isr=(), leader=NO_LEADER, leader_epoch=NO_EPOCH, partition_epoch=NO_EPOCH
)


def _no_trouble(_: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE


class MetadataCache:
    """The image of one broker of a cluster."""

    def __init__(
        self,
        image: ClusterImage,
        on_change: ImageListener,
        *,
        node_id: NodeId,
        log_dir_error: LogDirError = _no_trouble,
    ) -> None:
        """Configs, features and ACLs are taken from `image`, the store's.

        `on_change` is called with every change. `trouble` is then called for each replica that a
        request names and returns the error that keeps this broker from serving it.
        """
        self.image = ClusterImage(
            cluster_id=image.cluster_id,
            version=Version(image.version.controller_epoch, 0),
            controller_id=image.controller_id,
            configs=image.configs,
            features=image.features,
            acls=image.acls,
        )
        self._on_change = on_change
        self._node_id = node_id
        self._log_dir_error = log_dir_error
        self._broker_epoch = NO_EPOCH
        self._last: tuple[int, int, int] = (NO_EPOCH, NO_EPOCH, 0)
        # Stopped by StopReplica, although the image still has this broker as a replica.
        self._dropped: dict[TopicPartition, None] = {}
        self._informed_epoch = NO_EPOCH

    @property
    def has_full_update(self) -> bool:
        """Whether a controller has sent the full state since the last registration."""
        return NO_EPOCH < self._broker_epoch <= self._informed_epoch

    @property
    def has_metadata(self) -> bool:
        """Whether a controller has ever sent the full state.

        It may be outdated, as after a lost session, but is complete.
        """
        return self._informed_epoch > NO_EPOCH

    def registered(self, broker_epoch: int) -> None:
        """Set the epoch of this registration; requests with an earlier one are void.

        The epoch is the same if the store confirms a registration that it has already confirmed.
        """
        assert broker_epoch >= self._broker_epoch
        self._broker_epoch = broker_epoch

    def store_changed(self, changes: Sequence[MetadataChange]) -> None:
        """Apply configs, features, ACLs and the controller id from the store."""
        known_to_all = [
            change
            for change in changes
            if isinstance(change, KnownToAll | ControllerElected | ControllerGone)
        ]
        self._apply(known_to_all, self.image.version.controller_epoch)

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        error = self._check_epochs(request)
        if error is not None:
            return UpdateMetadataResponse(error_code=error)
        changes = [
            *self._controller_changes(request),
            *broker_changes(request, self.image, self._node_id),
        ]
        is_full = request.type == FULL
        for state in request.topic_states:
            changes += self._topic_changes(state, is_full=is_full)
        if is_full:
            named = {state.topic_name for state in request.topic_states}
            for name in self.image.topics:
                if name not in named:
                    changes += self._deleted(name)
        self._apply(changes, request.controller_epoch)
        if is_full:
            # The broker may not know yet that this registration succeeded.
            self._informed_epoch = request.broker_epoch
        return UpdateMetadataResponse()

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        error = self._check_epochs(request)
        if error is not None:
            return LeaderAndIsrResponse(error_code=error)
        changes: list[MetadataChange] = []
        outcomes = [self._roles(state, changes) for state in request.topic_states]
        self._apply(changes, request.controller_epoch)
        return LeaderAndIsrResponse(
            topics=tuple(
                LeaderAndIsrTopicError(
                    topic_id=state.topic_id,
                    partition_errors=tuple(
                        LeaderAndIsrPartitionError(
                            partition_index=number,
                            error_code=code
                            or self._log_dir_error(TopicPartition(state.topic_name, number)),
                        )
                        for number, code in codes.items()
                    ),
                )
                for state, codes in zip(request.topic_states, outcomes, strict=True)
            )
        )

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        error = self._check_epochs(request)
        if error is not None:
            return StopReplicaResponse(error_code=error)
        changes: list[MetadataChange] = []
        codes: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                codes[name] = self._stop(name, state, changes)
        self._apply(changes, request.controller_epoch)
        return StopReplicaResponse(
            partition_errors=tuple(
                StopReplicaPartitionError(
                    topic_name=name.topic,
                    partition_index=name.partition,
                    error_code=code or self._log_dir_error(name),
                )
                for name, code in codes.items()
            )
        )

    def _check_epochs(self, request: ControlRequest) -> ErrorCode | None:
        # A larger epoch belongs to a registration whose confirmation has not arrived yet.
        if request.broker_epoch < self._broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.image.version.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_epoch == NO_EPOCH:
            # It may be for an earlier process of this broker; if not, the controller sends it
            # again.
            return ErrorCode.BROKER_NOT_AVAILABLE
        place = (request.controller_epoch, request.broker_epoch, request.order)
        if request.order and place <= self._last:
            # The controller has timed it out and sent a later one.
            return ErrorCode.REQUEST_TIMED_OUT
        self._last = max(self._last, place)
        return None

    def _apply(self, changes: Sequence[MetadataChange], controller_epoch: int) -> None:
        before = self.image.version
        if not changes:
            if controller_epoch > before.controller_epoch:
                self.image = replace(self.image, version=Version(controller_epoch, 0))
            return
        self.image = apply(self.image, changes, Version(controller_epoch, before.sequence + 1))
        self._on_change(self.image, changes)

    # UpdateMetadata.

    def _controller_changes(self, request: UpdateMetadataRequest) -> list[MetadataChange]:
        """Only with a new epoch: later on the store may know the next controller first."""
        is_new = request.controller_epoch > self.image.version.controller_epoch
        controller_id = NodeId(request.controller_id)
        if not is_new or controller_id == self.image.controller_id:
            return []
        return [ControllerElected(controller_id)]

    def _topic_changes(
        self, state: UpdateMetadataTopicState, *, is_full: bool
    ) -> list[MetadataChange]:
        name = state.topic_name
        known = self.image.topics.get(name)
        is_other = known is not None and known.topic_id != state.topic_id
        if any(each.leader == LEADER_DURING_DELETE for each in state.partition_states):
            return [] if known is None or is_other else self._deleted(name)
        states = {each.partition_index: each for each in state.partition_states}
        if known is None or is_other:
            partitions = [
                _PLACEHOLDER
                if (each := states.get(number)) is None
                else _partition(each, _PLACEHOLDER)
                for number in range(max(states, default=-1) + 1)
            ]
            topic = TopicImage(name=name, topic_id=state.topic_id, partitions=tuple(partitions))
            # Topics that are not in the first full request were created while this process ran.
            is_old = is_full and self._informed_epoch == NO_EPOCH
            created: MetadataChange = TopicKnown(topic) if is_old else TopicCreated(topic)
            return [*self._deleted(name), created] if is_other else [created]
        return self._partition_changes(known, states)

    def _partition_changes(
        self, topic: TopicImage, states: dict[int, UpdateMetadataPartitionState]
    ) -> list[MetadataChange]:
        changes: list[MetadataChange] = []
        count = len(topic.partitions)
        for number, state in states.items():
            if number < count and state.zk_version > topic.partitions[number].partition_epoch:
                before = topic.partitions[number]
                changes += self._changed(topic.name, number, before, _partition(state, before))
        last = max(states, default=-1)
        if last >= count:
            added = [
                _PLACEHOLDER
                if (each := states.get(number)) is None
                else _partition(each, _PLACEHOLDER)
                for number in range(count, last + 1)
            ]
            changes.append(PartitionsAdded(topic.name, tuple(added)))
        return changes

    def _deleted(self, name: str) -> list[MetadataChange]:
        """Keep the configs: the store sends them, maybe for a new topic of that name."""
        for number in range(len(self.image.topics[name].partitions)):
            self._dropped.pop(TopicPartition(name, number), None)
        resource = ConfigResource(ResourceType.TOPIC, name)
        values = self.image.configs.get(resource)
        changes: list[MetadataChange] = [TopicDeleted(name)]
        return changes if values is None else [*changes, ConfigsReplaced(resource, values)]

    def _changed(
        self, topic: str, number: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> Iterable[MetadataChange]:
        yield PartitionChanged(topic, number, after)
        name = TopicPartition(topic, number)
        if self._node_id in before.replicas and self._node_id not in after.replicas:
            self._dropped.pop(name, None)
            yield PartitionDropped(topic, number, is_deleted=True)
        elif name in self._dropped:
            # A stopped replica stays stopped until LeaderAndIsr gives it a role again.
            yield PartitionDropped(topic, number, is_deleted=False)

    # LeaderAndIsr and StopReplica.

    def _roles(
        self, state: LeaderAndIsrTopicState, changes: list[MetadataChange]
    ) -> dict[int, ErrorCode]:
        """Apply the states of one topic; return an error code per partition."""
        topic = self.image.topic_by_id(state.topic_id)
        if topic is None:
            return {
                each.partition_index: ErrorCode.UNKNOWN_TOPIC_ID for each in state.partition_states
            }
        return {
            each.partition_index: self._role(topic, each, changes)
            for each in state.partition_states
        }

    def _role(
        self, topic: TopicImage, state: LeaderAndIsrPartitionState, changes: list[MetadataChange]
    ) -> ErrorCode:
        number = state.partition_index
        if number >= len(topic.partitions) or self._node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        before = topic.partitions[number]
        if state.leader_epoch < before.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if state.partition_epoch < before.partition_epoch:
            # The ISR has changed since; a later request contains it.
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
            changes.append(PartitionChanged(topic.name, number, after))
        return ErrorCode.NONE

    def _stop(
        self, name: TopicPartition, state: StopReplicaPartitionState, changes: list[MetadataChange]
    ) -> ErrorCode:
        partition = self.image.partition(*name)
        if partition is None or self._node_id not in partition.replicas:
            return ErrorCode.NONE
        # Negative epochs skip the check.
        if 0 <= state.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._dropped[name] = None
        changes.append(PartitionDropped(*name, is_deleted=state.delete_partition))
        return ErrorCode.NONE


def _partition(
    state: UpdateMetadataPartitionState | LeaderAndIsrPartitionState, before: PartitionRegistration
) -> PartitionRegistration:
    replicas = _nodes(state.replicas)
    is_same_reassignment = replicas == before.replicas
    return PartitionRegistration(
        replicas=replicas,
        isr=_nodes(state.isr),
        leader=NodeId(state.leader),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version
        if isinstance(state, UpdateMetadataPartitionState)
        else state.partition_epoch,
        # UpdateMetadata does not contain these; they only change with LeaderAndIsr.
        adding=before.adding if is_same_reassignment else (),
        removing=before.removing if is_same_reassignment else (),
    )


def _nodes(ids: tuple[int, ...]) -> tuple[NodeId, ...]:
    # A cast instead of a conversion: there may be thousands.
    return cast("tuple[NodeId, ...]", ids)
