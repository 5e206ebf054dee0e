"""Write metadata changes as records of Kafka's metadata log.

`RecordWriter.records_of` turns the changes of one write into records, given the image before them;
`record_replay` is the other direction.

Changes that are never stored have no records: see `changes`. Admission has none either: a broker is
admitted when it is unfenced, which is part of its registration. A topic is deleted at once, as in
Kafka: brokers delete their replicas when they replay the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from headwater.common.config_types import ResourceType
from headwater.common.ids import TopicId
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    ControllerRegistered,
    FeatureFinalized,
    LogDirectoryFailed,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    PartitionsAdded,
    ProducerIdsAllocated,
    ReplicasOffline,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    TopicKnown,
    apply,
    changes_of,
)
from headwater.metadata.cluster_image import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    PartitionRegistration,
)
from headwater.metadata.config_entities import entity_of
from headwater.metadata.metadata_record_serde import ApiMessageAndVersion, newest
from headwater.metadata.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaEntityData,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RegisteredBrokerEndpoint,
    RegisteredBrokerFeature,
    RegisteredControllerEndpoint,
    RegisteredControllerFeature,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from headwater.metadata.quota_configs import quotas_of
from headwater.metadata.record_replay import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    NO_LEADER_CHANGE,
    PROTOCOLS,
    QUOTA_KEYS,
    AclIds,
    merged,
    registration_after,
)
from headwater.security.authentication.scram import (
    BY_NAME,
    ScramMechanism,
    read_credential,
)
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclSet,
    ResourcePattern,
)
from headwater.security.quotas.quota_entities import (
    DEFAULT,
    QuotaEntity,
    QuotaKey,
)

_ENTITIES: Final = (ResourceType.USER, ResourceType.CLIENT, ResourceType.IP)


class RecordWriter:
    """Writes changes as records."""

    __slots__ = ("_acl_ids",)

    def __init__(self, acl_ids: AclIds) -> None:
        self._acl_ids = acl_ids

    def records_of(
        self, changes: Iterable[MetadataChange], image: ClusterImage
    ) -> list[ApiMessageAndVersion]:
        """The records of changes that were decided on an image."""
        found: list[MetadataRecord] = []
        # Changes that the image does not have yet. A later change may build on them; thousands of
        # partitions that change together do not build on each other, and share one `apply`.
        pending: list[MetadataChange] = []
        keys: dict[object, None] = {}
        for change in changes:
            key = _independent_key(change)
            if pending and (key is None or key in keys or len(keys) < len(pending)):
                image = apply(image, pending, image.version)
                pending.clear()
                keys.clear()
            found += self._records(change, image)
            pending.append(change)
            if key is not None:
                keys[key] = None
        return [newest(each) for each in found]

    def image_records(self, image: ClusterImage) -> list[ApiMessageAndVersion]:
        """Return the records of a snapshot: features, then brokers, then the rest."""
        features = [FeatureFinalized(name, level) for name, level in image.features.items()]
        brokers = [*image.brokers.values(), *image.fenced_brokers.values()]
        nodes: list[MetadataChange] = [
            *(BrokerRegistered(each) for each in brokers),
            *(ControllerRegistered(each) for each in image.controllers.values()),
        ]
        others = [each for each in changes_of(image) if not isinstance(each, FeatureFinalized)]
        empty = ClusterImage(cluster_id=image.cluster_id)
        return self.records_of([*features, *nodes, *others], empty)

    def _records(self, change: MetadataChange, image: ClusterImage) -> Sequence[MetadataRecord]:
        match change:
            case TopicCreated(topic):
                return [
                    TopicRecord(name=topic.name, topic_id=topic.topic_id),
                    *(
                        partition_record(topic.topic_id, number, each)
                        for number, each in enumerate(topic.partitions)
                    ),
                ]
            case TopicDeletionBegun(name) | TopicDeleted(name):
                topic = image.topics[name]
                # Its record was written when the deletion began.
                return [] if topic.is_deleting else [RemoveTopicRecord(topic_id=topic.topic_id)]
            case PartitionsAdded(name, added):
                topic = image.topics[name]
                first = len(topic.partitions)
                return [
                    partition_record(topic.topic_id, first + index, each)
                    for index, each in enumerate(added)
                ]
            case PartitionChanged(name, number, partition):
                topic = image.topics[name]
                assert not topic.is_deleting, f"a change of {name}, whose removal is in the log"
                before = topic.partitions[number]
                return [partition_change(topic.topic_id, number, before, partition)]
            case ConfigsReplaced(resource, values):
                return _config_records(resource, image.configs.get(resource, {}), values)
            case FeatureFinalized(name, level):
                return [FeatureLevelRecord(name=name, feature_level=level)]
            case ProducerIdsAllocated(next_producer_id):
                return [ProducerIdsRecord(broker_id=-1, next_producer_id=next_producer_id)]
            case AclsReplaced(pattern, acls):
                return self._acl_records(pattern, image.acls.get(pattern), acls)
            case BrokerRegistered() | BrokerGone() | BrokerStopping():
                return _broker_records(change, image)
            case ControllerRegistered(controller):
                return [_register_controller(controller)]
            case (
                BrokerAdmitted()
                | TopicKnown()
                | PartitionDropped()
                | ControllerElected()
                | ControllerGone()
                | ReplicasOffline()
                | LogDirectoryFailed()
            ):
                return []
            case _:
                assert_never(change)

    def _acl_records(
        self, pattern: ResourcePattern, before: AclSet | None, after: AclSet
    ) -> list[MetadataRecord]:
        old = () if before is None else before.entries
        found: list[MetadataRecord] = []
        for entry in old:
            if entry not in after.entries:
                acl_id = self._acl_ids.id_of(AclBinding(pattern, entry))
                found.append(RemoveAccessControlEntryRecord(id=acl_id))
        found.extend(
            AccessControlEntryRecord(
                id=self._acl_ids.id_of(AclBinding(pattern, entry)),
                resource_type=pattern.kind,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in after.entries
            if entry not in old
        )
        return found


def _independent_key(change: MetadataChange) -> object:
    """What a change is about, if it only builds on changes about the same; else None."""
    if isinstance(change, PartitionChanged):
        return change.topic, change.number
    return None


def _broker_records(
    change: BrokerRegistered | BrokerGone | BrokerStopping, image: ClusterImage
) -> list[MetadataRecord]:
    match change:
        case BrokerRegistered(broker):
            before = image.registration(broker.node_id)
            record = None if before is None else _registration_change(before, broker)
            return [_register_broker(broker) if record is None else record]
        case BrokerStopping(node_id):
            return [
                BrokerRegistrationChangeRecord(
                    broker_id=node_id,
                    broker_epoch=image.brokers[node_id].epoch,
                    in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
                )
            ]
        case BrokerGone(node_id):
            gone = image.registration(node_id)
            if gone is None:
                return []
            return [UnregisterBrokerRecord(broker_id=node_id, broker_epoch=gone.epoch)]


def _registration_change(
    before: BrokerRegistration, after: BrokerRegistration
) -> BrokerRegistrationChangeRecord | None:
    """The difference of two states of one registration, if this record can express it."""
    record = BrokerRegistrationChangeRecord(
        broker_id=after.node_id,
        broker_epoch=after.epoch,
        fenced=(after.is_fenced - before.is_fenced) * FENCE,
        in_controlled_shutdown=(after.is_stopping - before.is_stopping) * IN_CONTROLLED_SHUTDOWN,
        log_dirs=after.log_dirs if after.log_dirs != before.log_dirs else (),
    )
    is_same = after.epoch == before.epoch and registration_after(before, record) == after
    return record if is_same and after != before else None


def _register_broker(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        incarnation_id=broker.incarnation_id,
        end_points=tuple(
            RegisteredBrokerEndpoint(
                name=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=PROTOCOLS.index(SecurityProtocol(each.security_protocol)),
            )
            for each in broker.endpoints
        ),
        features=tuple(
            RegisteredBrokerFeature(
                name=each.name,
                min_supported_version=each.lowest,
                max_supported_version=each.highest,
            )
            for each in broker.features
        ),
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_stopping,
        log_dirs=broker.log_dirs,
    )


def _register_controller(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        end_points=tuple(
            RegisteredControllerEndpoint(
                name=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=PROTOCOLS.index(SecurityProtocol(each.security_protocol)),
            )
            for each in controller.endpoints
        ),
        features=tuple(
            RegisteredControllerFeature(
                name=each.name,
                min_supported_version=each.lowest,
                max_supported_version=each.highest,
            )
            for each in controller.features
        ),
    )


def partition_record(
    topic_id: TopicId, number: int, partition: PartitionRegistration
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=_all_directories(partition),
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def partition_change(
    topic_id: TopicId, number: int, before: PartitionRegistration, after: PartitionRegistration
) -> PartitionRecord | PartitionChangeRecord:
    """The difference, if it has Kafka's steps of the epochs; else the whole partition."""
    has_new_replicas = after.replicas != before.replicas
    has_new_directories = has_new_replicas or after.directories != before.directories
    is_new_epoch = after.leader_epoch != before.leader_epoch
    change = PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=after.isr if after.isr != before.isr else None,
        leader=after.leader if is_new_epoch else NO_LEADER_CHANGE,
        replicas=after.replicas if has_new_replicas else None,
        removing_replicas=after.removing if after.removing != before.removing else None,
        adding_replicas=after.adding if after.adding != before.adding else None,
        directories=_all_directories(after) if has_new_directories else None,
        eligible_leader_replicas=after.elr if after.elr != before.elr else None,
        last_known_elr=(
            after.last_known_elr if after.last_known_elr != before.last_known_elr else None
        ),
    )
    if merged(before, change) == after:
        return change
    return partition_record(topic_id, number, after)


def _all_directories(partition: PartitionRegistration) -> tuple[TopicId, ...]:
    """One for each replica, as records have them."""
    return partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)


def _config_records(
    resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
) -> list[MetadataRecord]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if resource.resource_type not in _ENTITIES:
        return [
            ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=after.get(name),
            )
            for name in names
        ]
    entity = entity_of(resource)
    if entity is None:
        return []
    found: list[MetadataRecord] = []
    old, new = quotas_of(before), quotas_of(after)
    for name in names:
        if name in BY_NAME and entity.user is not None:
            found.append(_scram_record(entity.user, BY_NAME[name], after.get(name)))
        elif name in QUOTA_KEYS:
            key = QUOTA_KEYS[name]
            if key in new or key in old:
                found.append(_quota_record(entity, key, new.get(key)))
    return found


def _quota_record(entity: QuotaEntity, key: QuotaKey, value: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=tuple(
            ClientQuotaEntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
            for kind, name in entity.parts.items()
        ),
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def _scram_record(
    user: str, mechanism: ScramMechanism, text: str | None
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if text is None:
        return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
    credential = read_credential(text)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
