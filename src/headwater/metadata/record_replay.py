"""Replay the records of Kafka's metadata log: records to changes.

`RecordReplay.replay` turns records, ours or Kafka's, into changes. `record_writer` is the other
direction. Both share `AclIds`, because Kafka removes an ACL by the id that it was added with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId, TopicId
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerRegistered,
    FeatureFinalized,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    PartitionRegistration,
    SupportedFeature,
    TopicImage,
    assigned_directories,
)
from headwater.metadata.config_entities import resource_of, user_resource
from headwater.metadata.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
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
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from headwater.security.authentication.scram import (
    ScramCredential,
    ScramMechanism,
)
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.security.quotas.quota_entities import (
    DEFAULT,
    LARGEST_WHOLE,
    EntityType,
    QuotaEntity,
    QuotaKey,
)

NO_LEADER_CHANGE: Final = -2
# BrokerRegistrationFencingChange
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
PROTOCOLS: Final = tuple(SecurityProtocol)
"""Security protocols by their numbers in records."""

QUOTA_KEYS: Final = {str(each): each for each in QuotaKey}


@dataclass(slots=True)
class AclIds:
    """Which ACL has which id."""

    bindings: dict[TopicId, AclBinding] = field(default_factory=dict)
    ids: dict[AclBinding, TopicId] = field(default_factory=dict)

    def add(self, acl_id: TopicId, binding: AclBinding) -> None:
        self.bindings[acl_id] = binding
        self.ids[binding] = acl_id

    def remove(self, acl_id: TopicId) -> AclBinding | None:
        binding = self.bindings.pop(acl_id, None)
        if binding is not None:
            del self.ids[binding]
        return binding

    def id_of(self, binding: AclBinding) -> TopicId:
        """Return the id of an ACL; a new one is derived from its content."""
        return self.ids.get(binding) or _derived_id(binding)


def _derived_id(binding: AclBinding) -> TopicId:
    pattern, entry = binding
    parts = (*map(str, (*pattern, *entry)),)
    digest = blake2b("\0".join(parts).encode(), digest_size=16).digest()
    return TopicId(b"\1" + digest[1:])


class RecordReplay:
    """Turns committed records into changes, in their order."""

    __slots__ = ("_acl_ids", "_transaction", "has_applied")

    def __init__(self, acl_ids: AclIds) -> None:
        self._acl_ids = acl_ids
        # Whether any record counts: not those of a transaction that is open or was aborted.
        self.has_applied = False
        # Records between BeginTransaction and EndTransaction count together (KIP-868).
        self._transaction: list[MetadataRecord] | None = None

    @property
    def is_in_transaction(self) -> bool:
        """Whether a metadata transaction is open, which allows no snapshot."""
        return self._transaction is not None

    def replay(
        self, records: Iterable[MetadataRecord], image: ClusterImage
    ) -> list[MetadataChange]:
        """The changes that records make to an image."""
        draft = _ReplayDraft(image, self._acl_ids)
        for record in records:
            match record:
                case BeginTransactionRecord():
                    self._transaction = []
                case AbortTransactionRecord():
                    self._transaction = None
                case EndTransactionRecord():
                    whole, self._transaction = self._transaction or [], None
                    for each in whole:
                        draft.replay(each)
                    self.has_applied |= bool(whole)
                case _ if self._transaction is not None:
                    self._transaction.append(record)
                case _:
                    draft.replay(record)
                    self.has_applied = True
        return draft.changes()


class _ReplayDraft:
    """What the records of one call change."""

    def __init__(self, image: ClusterImage, acl_ids: AclIds) -> None:
        self._image = image
        self._acl_ids = acl_ids
        self._brokers: dict[NodeId, BrokerRegistration | None] = {}
        self._others: list[MetadataChange] = []
        self._names: dict[TopicId, str | None] = {}
        self._deleted: list[str] = []
        self._created: dict[str, TopicId] = {}
        # Partitions by number, since Kafka's snapshots have them in any order.
        self._partitions: dict[str, dict[int, PartitionRegistration]] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._acls: dict[ResourcePattern, list[AclEntry]] = {}

    def changes(self) -> list[MetadataChange]:
        found: list[MetadataChange] = [TopicDeleted(name) for name in self._deleted]
        for name, topic_id in self._created.items():
            partitions = self._partitions.pop(name, {})
            assert sorted(partitions) == list(range(len(partitions))), (
                f"topic {name} lacks a partition"
            )
            ordered = tuple(partitions[number] for number in sorted(partitions))
            found.append(TopicCreated(TopicImage(name=name, topic_id=topic_id, partitions=ordered)))
        for name, partitions in self._partitions.items():
            found += self._partition_changes(name, partitions)
        found += [ConfigsReplaced(each, values) for each, values in self._configs.items()]
        for pattern, entries in self._acls.items():
            known = self._image.acls.get(pattern)
            version = 0 if known is None else known.version + 1
            found.append(AclsReplaced(pattern, AclSet(tuple(entries), version)))
        return found + self._others

    def _partition_changes(
        self, name: str, partitions: Mapping[int, PartitionRegistration]
    ) -> list[MetadataChange]:
        known = self._image.topics[name].partitions
        found: list[MetadataChange] = [
            PartitionChanged(name, number, partitions[number])
            for number in sorted(partitions)
            if number < len(known)
        ]
        added = sorted(number for number in partitions if number >= len(known))
        assert added == list(range(len(known), len(known) + len(added))), (
            f"topic {name} lacks a partition"
        )
        if added:
            found.append(PartitionsAdded(name, tuple(partitions[number] for number in added)))
        return found

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
                self._created[record.name] = record.topic_id
            case PartitionRecord():
                name = self._name_of(record.topic_id)
                self._partitions.setdefault(name, {})[record.partition_id] = _registration(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case RemoveTopicRecord():
                self._delete(record.topic_id)
            case ConfigRecord():
                resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
                self._set_config(resource, record.name, record.value)
            case ClientQuotaRecord():
                entity = _entity(record)
                if entity is not None:
                    value = None if record.remove else _quota_text(record.key, record.value)
                    self._set_config(resource_of(entity), record.key, value)
            case UserScramCredentialRecord():
                credential = ScramCredential(
                    salt=record.salt,
                    stored_key=record.stored_key,
                    server_key=record.server_key,
                    iterations=record.iterations,
                )
                name = ScramMechanism(record.mechanism).mechanism_name
                self._set_config(user_resource(record.name), name, str(credential))
            case RemoveUserScramCredentialRecord():
                name = ScramMechanism(record.mechanism).mechanism_name
                self._set_config(user_resource(record.name), name, None)
            case FeatureLevelRecord():
                self._others.append(FeatureFinalized(record.name, record.feature_level))
            case ProducerIdsRecord():
                self._others.append(ProducerIdsAllocated(record.next_producer_id))
            case AccessControlEntryRecord():
                self._add_acl(record)
            case RemoveAccessControlEntryRecord():
                binding = self._acl_ids.remove(record.id)
                if binding is not None:
                    self._entries(binding.pattern).remove(binding.entry)
            case RegisterBrokerRecord():
                self._register(record)
            case UnregisterBrokerRecord():
                self._brokers[NodeId(record.broker_id)] = None
                self._others.append(BrokerGone(NodeId(record.broker_id)))
            case BrokerRegistrationChangeRecord():
                self._change_registration(record)
            case FenceBrokerRecord():
                self._change_registration(
                    BrokerRegistrationChangeRecord(broker_id=record.id, fenced=FENCE)
                )
            case UnfenceBrokerRecord():
                self._change_registration(
                    BrokerRegistrationChangeRecord(broker_id=record.id, fenced=UNFENCE)
                )
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case RegisterControllerRecord():
                self._others.append(ControllerRegistered(_controller(record)))
            case _:
                # Delegation tokens and no-ops are not part of the image.
                pass

    def _name_of(self, topic_id: TopicId) -> str:
        name = self._names.get(topic_id) or self._image.names_by_id.get(topic_id)
        assert name is not None, f"a record of topic id {topic_id}, which does not exist"
        return name

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        name = self._name_of(record.topic_id)
        touched = self._partitions.setdefault(name, {})
        before = touched.get(record.partition_id)
        if before is None:
            before = self._image.topics[name].partitions[record.partition_id]
        touched[record.partition_id] = merged(before, record)

    def _clear_elr(self, topic: str) -> None:
        """Of one topic, or of all: a change of `min.insync.replicas` in Kafka."""
        for name in [topic] if topic else [*self._image.topics]:
            known = self._image.topics[name].partitions if name in self._image.topics else ()
            touched = self._partitions.setdefault(name, {})
            for number in {**dict.fromkeys(range(len(known))), **touched}:
                before = touched[number] if number in touched else known[number]
                if before.elr or before.last_known_elr:
                    touched[number] = replace(before, elr=(), last_known_elr=())

    def _delete(self, topic_id: TopicId) -> None:
        name = self._name_of(topic_id)
        self._names[topic_id] = None
        self._partitions.pop(name, None)
        self._configs.pop(ConfigResource(ResourceType.TOPIC, name), None)
        self._created.pop(name, None)
        if name in self._image.topics and name not in self._deleted:
            self._deleted.append(name)

    def _set_config(self, resource: ConfigResource, name: str, value: str | None) -> None:
        if resource not in self._configs:
            is_deleted = (
                resource.resource_type is ResourceType.TOPIC and resource.name in self._deleted
            )
            known = {} if is_deleted else self._image.configs.get(resource, {})
            self._configs[resource] = dict(known)
        if value is None:
            self._configs[resource].pop(name, None)
        else:
            self._configs[resource][name] = value

    def _entries(self, pattern: ResourcePattern) -> list[AclEntry]:
        if pattern not in self._acls:
            known = self._image.acls.get(pattern)
            self._acls[pattern] = [] if known is None else list(known.entries)
        return self._acls[pattern]

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        pattern = ResourcePattern(
            ResourceKind(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
        )
        entry = AclEntry(
            record.principal,
            record.host,
            Operation(record.operation),
            Permission(record.permission_type),
        )
        self._acl_ids.add(record.id, AclBinding(pattern, entry))
        entries = self._entries(pattern)
        if entry not in entries:
            entries.append(entry)

    def _register(self, record: RegisterBrokerRecord) -> None:
        self._registered(
            BrokerRegistration(
                node_id=NodeId(record.broker_id),
                epoch=record.broker_epoch,
                rack=record.rack,
                endpoints=_endpoints(record.end_points),
                is_stopping=record.in_controlled_shutdown,
                is_fenced=record.fenced,
                incarnation_id=record.incarnation_id,
                features=_features(record.features),
                log_dirs=record.log_dirs,
            )
        )

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        node_id = NodeId(record.broker_id)
        broker = (
            self._brokers[node_id]
            if node_id in self._brokers
            else self._image.registration(node_id)
        )
        assert broker is not None, f"a record of broker {node_id}, which is not registered"
        self._registered(registration_after(broker, record))

    def _registered(self, broker: BrokerRegistration) -> None:
        self._brokers[broker.node_id] = broker
        self._others.append(BrokerRegistered(broker))
        if not broker.is_fenced:
            self._others.append(BrokerAdmitted(broker.node_id, broker.epoch))


def registration_after(
    broker: BrokerRegistration, record: BrokerRegistrationChangeRecord
) -> BrokerRegistration:
    """A registration after a change record."""
    shutdown = record.in_controlled_shutdown
    return replace(
        broker,
        is_fenced=broker.is_fenced if not record.fenced else record.fenced == FENCE,
        is_stopping=broker.is_stopping or shutdown == IN_CONTROLLED_SHUTDOWN,
        log_dirs=record.log_dirs or broker.log_dirs,
    )


def _endpoints(
    endpoints: Iterable[RegisteredBrokerEndpoint | RegisteredControllerEndpoint],
) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(
            listener=each.name,
            host=each.host,
            port=each.port,
            security_protocol=PROTOCOLS[each.security_protocol],
        )
        for each in endpoints
    )


def _features(
    features: Iterable[RegisteredBrokerFeature | RegisteredControllerFeature],
) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(each.name, each.min_supported_version, each.max_supported_version)
        for each in features
    )


def _controller(record: RegisterControllerRecord) -> ControllerRegistration:
    return ControllerRegistration(
        node_id=NodeId(record.controller_id),
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        features=_features(record.features),
    )


def merged(before: PartitionRegistration, change: PartitionChangeRecord) -> PartitionRegistration:
    """A partition after a change record: a new leader is a new leader epoch."""
    has_leader = change.leader != NO_LEADER_CHANGE
    return PartitionRegistration(
        replicas=before.replicas if change.replicas is None else _nodes(change.replicas),
        isr=before.isr if change.isr is None else _nodes(change.isr),
        leader=NodeId(change.leader) if has_leader else before.leader,
        leader_epoch=before.leader_epoch + has_leader,
        partition_epoch=before.partition_epoch + 1,
        adding=before.adding if change.adding_replicas is None else _nodes(change.adding_replicas),
        removing=(
            before.removing
            if change.removing_replicas is None
            else _nodes(change.removing_replicas)
        ),
        directories=(
            before.directories
            if change.directories is None
            else assigned_directories(change.directories)
        ),
        elr=(
            before.elr
            if change.eligible_leader_replicas is None
            else _nodes(change.eligible_leader_replicas)
        ),
        last_known_elr=(
            before.last_known_elr
            if change.last_known_elr is None
            else _nodes(change.last_known_elr)
        ),
    )


def _registration(record: PartitionRecord) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=_nodes(record.replicas),
        isr=_nodes(record.isr),
        leader=NodeId(record.leader),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding=_nodes(record.adding_replicas),
        removing=_nodes(record.removing_replicas),
        directories=assigned_directories(record.directories),
        elr=_nodes(record.eligible_leader_replicas or ()),
        last_known_elr=_nodes(record.last_known_elr or ()),
    )


def _nodes(ids: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(each) for each in ids)


def _entity(record: ClientQuotaRecord) -> QuotaEntity | None:
    parts: dict[str, str] = {}
    for each in record.entity:
        parts[each.entity_type] = DEFAULT if each.entity_name is None else each.entity_name
    entity = QuotaEntity(
        parts.pop(EntityType.USER, None),
        parts.pop(EntityType.CLIENT_ID, None),
        parts.pop(EntityType.IP, None),
    )
    return None if parts or not entity.parts else entity


def _quota_text(key: str, value: float) -> str:
    return str(int(value)) if QUOTA_KEYS.get(key) in LARGEST_WHOLE else str(value)
