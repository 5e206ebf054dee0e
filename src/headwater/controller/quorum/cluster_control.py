"""Decide registrations, fencing and log directories of brokers in a KRaft cluster.

Each decision writes what happened to the broker together with what follows for its partitions
(`leader_election`), so that no controller finds one without the other.

Note: a new incarnation of a broker leaves every ISR that has other members before it is registered,
whether it stopped cleanly or not (decision 0013). With eligible leader replicas (KIP-966) it leaves
the others too, and its ELRs unless PreviousBrokerEpoch proves that it lost nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.common.security_protocol import SecurityProtocol
from headwater.controller.leader_election import (
    MayBeUnclean,
    ReplicaEligibility,
    elect_and_shrink,
    eligibility,
)
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ControllerRegistered,
    MetadataChange,
    PartitionChanged,
    apply,
)
from headwater.metadata.cluster_image import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ControllerRegistration,
    PartitionRegistration,
    SupportedFeature,
    assigned_directories,
)
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    DirectoryResult,
    PartitionResult,
    TopicData,
    TopicResult,
)
from headwater.protocol.messages.broker_registration import BrokerRegistrationRequest
from headwater.protocol.messages.broker_registration import Listener as BrokerListener
from headwater.protocol.messages.controller_registration import ControllerRegistrationRequest
from headwater.protocol.messages.controller_registration import Listener as ControllerListener
from headwater.protocol.messages.unregister_broker import UnregisterBrokerRequest

_PROTOCOLS: Final = tuple(SecurityProtocol)
_RESERVED_DIRECTORIES: Final = (UNASSIGNED_DIRECTORY, LOST_DIRECTORY, MIGRATING_DIRECTORY)


@dataclass(frozen=True, slots=True)
class HeldPartitions:
    """Partitions with a replica on a broker; which topics allow unclean elections."""

    names: Sequence[TopicPartition]
    may_be_unclean: MayBeUnclean


def register_broker(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    *,
    broker_epoch: int,
    finalized: Mapping[str, int],
    has_valid_session: bool,
    held: HeldPartitions,
) -> ControllerResult[BrokerRegistration | ApiError]:
    """Register a broker, fenced, or change the registration of the same incarnation."""
    node_id = NodeId(request.broker_id)
    existing = image.registration(node_id)
    is_known = existing is not None and existing.incarnation_id == request.incarnation_id
    refusal = _check_registration(
        image, request, finalized=finalized, is_duplicate=has_valid_session and not is_known
    )
    if refusal is not None:
        return ControllerResult((), refusal)
    broker = BrokerRegistration(
        node_id=node_id,
        epoch=broker_epoch,
        rack=request.rack,
        endpoints=_endpoints(request.listeners),
        is_fenced=True,
        incarnation_id=request.incarnation_id,
        features=tuple(
            SupportedFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ),
        log_dirs=request.log_dirs,
    )
    if existing is not None and is_known:
        broker = replace(
            broker,
            epoch=existing.epoch,
            is_fenced=existing.is_fenced,
            is_stopping=existing.is_stopping,
        )
        return ControllerResult(_with_elections(image, [BrokerRegistered(broker)], held), broker)
    is_clean = existing is not None and existing.epoch == request.previous_broker_epoch
    unclean = () if is_clean else (node_id,)
    changes = _with_elections(image, [BrokerRegistered(broker)], held, unclean)
    return ControllerResult(changes, broker)


def fence_brokers(
    image: ClusterImage, node_ids: Iterable[NodeId], held: HeldPartitions
) -> ControllerResult[None]:
    """Fence brokers together, so that none of them takes over from another one."""
    fenced = [
        BrokerRegistered(replace(broker, is_fenced=True))
        for node_id in node_ids
        if (broker := image.brokers.get(node_id)) is not None
    ]
    return ControllerResult(_with_elections(image, fenced, held), None)


def unfence_broker(
    image: ClusterImage, node_id: NodeId, held: HeldPartitions
) -> ControllerResult[None]:
    """Unfence a broker, and let it lead where it is the last ISR member."""
    broker = image.fenced_brokers.get(node_id)
    if broker is None:
        return ControllerResult((), None)
    unfenced = replace(broker, is_fenced=False)
    changes: list[MetadataChange] = [
        BrokerRegistered(unfenced),
        BrokerAdmitted(node_id, unfenced.epoch),
    ]
    return ControllerResult(_with_elections(image, changes, held), None)


def begin_controlled_shutdown(
    image: ClusterImage, node_id: NodeId, held: HeldPartitions
) -> ControllerResult[None]:
    """Move leaders off a broker that wants to stop."""
    if node_id not in image.brokers:
        return ControllerResult((), None)
    return ControllerResult(_with_elections(image, [BrokerStopping(node_id)], held), None)


def take_directories_offline(
    image: ClusterImage, node_id: NodeId, offline: Sequence[TopicId], held: HeldPartitions
) -> ControllerResult[None]:
    """Elect other leaders for replicas in log directories that have failed."""
    broker = image.registration(node_id)
    if broker is None or not set(broker.log_dirs) & set(offline):
        return ControllerResult((), None)
    online = tuple(each for each in broker.log_dirs if each not in offline)
    if not online:
        # A registration without directories would mean that they are not known: the broker stops.
        return ControllerResult((), None)
    changes = [BrokerRegistered(replace(broker, log_dirs=online))]
    return ControllerResult(_with_elections(image, changes, held), None)


def unregister_broker(
    image: ClusterImage, request: UnregisterBrokerRequest
) -> ControllerResult[ApiError]:
    """Remove the registration of a broker that will not return.

    Unlike in Kafka, a live broker is rejected: it would keep serving while its cluster has
    forgotten it. A fenced one leads nothing, so nothing follows for its partitions.
    """
    node_id = NodeId(request.broker_id)
    if node_id in image.brokers:
        reason = f"broker {node_id} is alive; stop it first"
        return ControllerResult((), ApiError(ErrorCode.INVALID_REQUEST, reason))
    if node_id not in image.fenced_brokers:
        reason = f"broker {node_id} is not registered"
        return ControllerResult((), ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason))
    return ControllerResult([BrokerGone(node_id)], NO_ERROR)


def register_controller(
    image: ClusterImage,  # noqa: ARG001, decisions are functions of the image
    request: ControllerRegistrationRequest,
) -> ControllerResult[None]:
    """Register a node of the quorum with its endpoints and features."""
    controller = ControllerRegistration(
        node_id=NodeId(request.controller_id),
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=tuple(
            SupportedFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ),
    )
    return ControllerResult([ControllerRegistered(controller)], None)


def has_movable_leaderships(
    image: ClusterImage, node_id: NodeId, names: Iterable[TopicPartition]
) -> bool:
    """Return whether another ISR member could lead a partition that a broker leads."""
    return any(
        eligibility(image, each, name) is ReplicaEligibility.ELIGIBLE
        for name in names
        if (partition := image.partition(*name)) is not None and partition.leader == node_id
        for each in partition.isr
        if each != node_id
    )


def assign_replicas_to_dirs(
    image: ClusterImage, request: AssignReplicasToDirsRequest, may_be_unclean: MayBeUnclean
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record in which log directories a broker has its replicas (KIP-858)."""
    node_id = NodeId(request.broker_id)
    broker = image.registration(node_id)
    if broker is None or broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
        return ControllerResult((), AssignReplicasToDirsResponse(error_code=error))
    changes: dict[TopicPartition, MetadataChange] = {}
    offline: list[TopicPartition] = []
    directories = []
    for directory in request.directories:
        directories.append(_assigned(image, node_id, directory, changes))
        if not broker.has_online_directory(directory.id):
            offline += [
                TopicPartition(topic.name, each.partition_index)
                for data in directory.topics
                if (topic := image.topic_by_id(data.topic_id)) is not None
                for each in data.partitions
            ]
    found = list(changes.values())
    # A replica in a new directory may be the one that its partition needs for a leader.
    leaderless = [
        name
        for name in changes
        if (partition := image.partition(*name)) is not None and partition.leader == NO_LEADER
    ]
    affected = dict.fromkeys([*offline, *leaderless])
    if affected:
        after = apply(image, found, image.version)
        found += elect_and_shrink(after, affected, may_be_unclean=may_be_unclean).changes
    return ControllerResult(found, AssignReplicasToDirsResponse(directories=tuple(directories)))


def _with_elections(
    image: ClusterImage,
    changes: Sequence[MetadataChange],
    held: HeldPartitions,
    unclean: Collection[NodeId] = (),
) -> list[MetadataChange]:
    """Add what follows for the partitions of a broker that has changed."""
    if not changes:
        return []
    after = apply(image, changes, image.version)
    elections = elect_and_shrink(
        after, held.names, may_be_unclean=held.may_be_unclean, unclean=unclean
    )
    return [*changes, *elections.changes]


def _check_registration(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    *,
    finalized: Mapping[str, int],
    is_duplicate: bool,
) -> ApiError | None:
    if request.cluster_id != image.cluster_id:
        reason = f"the cluster id is {image.cluster_id}, not {request.cluster_id}"
        return ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    if is_duplicate:
        reason = f"another broker is registered with id {request.broker_id}"
        return ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, reason)
    if request.is_migrating_zk_broker:
        return ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers on ZooKeeper cannot register")
    return _check_directories(image, request) or _check_features(request, finalized)


def _check_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> ApiError | None:
    directories = request.log_dirs
    if not directories:
        return ApiError(ErrorCode.INVALID_REGISTRATION, "the request names no log directories")
    if any(each in _RESERVED_DIRECTORIES for each in directories):
        return ApiError(ErrorCode.INVALID_REGISTRATION, "a log directory has a reserved id")
    if len(set(directories)) < len(directories):
        return ApiError(ErrorCode.INVALID_REGISTRATION, "the request has a log directory twice")
    for other in (*image.brokers.values(), *image.fenced_brokers.values()):
        if other.node_id != request.broker_id and set(other.log_dirs) & set(directories):
            reason = f"broker {other.node_id} is registered with the same log directory"
            return ApiError(ErrorCode.INVALID_REGISTRATION, reason)
    return None


def _check_features(
    request: BrokerRegistrationRequest, finalized: Mapping[str, int]
) -> ApiError | None:
    """A broker must support the finalized level of every feature."""
    ranges = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    for name, level in finalized.items():
        lowest, highest = ranges.get(name, (0, 0))
        if not lowest <= level <= highest:
            reason = (
                f"broker {request.broker_id} supports levels {lowest} to {highest} of {name}, "
                f"but {level} is finalized"
            )
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, reason)
    return None


def _endpoints(
    listeners: Iterable[BrokerListener | ControllerListener],
) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(
            listener=each.name,
            host=each.host,
            port=each.port,
            security_protocol=_PROTOCOLS[each.security_protocol],
        )
        for each in listeners
    )


def _assigned(
    image: ClusterImage,
    node_id: NodeId,
    directory: DirectoryData,
    changes: dict[TopicPartition, MetadataChange],
) -> DirectoryResult:
    return DirectoryResult(
        id=directory.id,
        topics=tuple(
            _assigned_topic(image, node_id, directory.id, each, changes)
            for each in directory.topics
        ),
    )


def _assigned_topic(
    image: ClusterImage,
    node_id: NodeId,
    directory_id: TopicId,
    data: TopicData,
    changes: dict[TopicPartition, MetadataChange],
) -> TopicResult:
    topic = image.topic_by_id(data.topic_id)
    results = []
    for each in data.partitions:
        number = each.partition_index
        error = ErrorCode.NONE
        if topic is None or topic.is_deleting:
            # The log has its removal: no replica can apply a record of this topic after it.
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not 0 <= number < len(topic.partitions):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif node_id not in topic.partitions[number].replicas:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            before = topic.partitions[number]
            after = _with_directory(before, node_id, directory_id)
            if after != before:
                name = TopicPartition(topic.name, number)
                changes[name] = PartitionChanged(topic.name, number, after)
        results.append(PartitionResult(partition_index=number, error_code=error))
    return TopicResult(topic_id=data.topic_id, partitions=tuple(results))


def _with_directory(
    partition: PartitionRegistration, node_id: NodeId, directory_id: TopicId
) -> PartitionRegistration:
    directories = assigned_directories(
        [
            directory_id if each == node_id else partition.directory_of(each)
            for each in partition.replicas
        ]
    )
    if directories == partition.directories:
        return partition
    return replace(
        partition, directories=directories, partition_epoch=partition.partition_epoch + 1
    )
