"""The changes between two images, for a replica that loads a snapshot.

A replica that lags far behind gets the image of a later offset instead of the records up to it. Its
listeners still expect changes: `apply(before, changes_between(before, after), v)` has the content
of `after`.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from headwater.common.config_types import ResourceType
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
from headwater.metadata.cluster_image import ClusterImage, TopicImage
from headwater.security.authorization.acl_bindings import AclSet

K = TypeVar("K")
V = TypeVar("V")


def changes_between(before: ClusterImage, after: ClusterImage) -> list[MetadataChange]:
    """Return what listeners of `before` must be told to be listeners of `after`."""
    return [
        *_topic_changes(before, after),
        *_config_changes(before, after),
        *_broker_changes(before, after),
        *(
            FeatureFinalized(name, level or 0)
            for name, level in _differences(before.features, after.features)
        ),
        *_acl_changes(before, after),
        *(
            [ProducerIdsAllocated(after.next_producer_id)]
            if after.next_producer_id != before.next_producer_id
            else []
        ),
    ]


def _topic_changes(before: ClusterImage, after: ClusterImage) -> Iterator[MetadataChange]:
    created = []
    for name, topic in before.topics.items():
        now = after.topics.get(name)
        if now is None or now.topic_id != topic.topic_id:
            yield TopicDeleted(name)
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            created.append(TopicCreated(topic))
        elif known is not topic:
            yield from _partition_changes(known, topic)
    yield from created


def _partition_changes(before: TopicImage, after: TopicImage) -> Iterator[MetadataChange]:
    count = len(before.partitions)
    for number, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=False)):
        if old != new:
            yield PartitionChanged(after.name, number, new)
    if len(after.partitions) > count:
        yield PartitionsAdded(after.name, after.partitions[count:])


def _config_changes(before: ClusterImage, after: ClusterImage) -> Iterator[MetadataChange]:
    for resource, values in before.configs.items():
        if resource not in after.configs and values:
            yield ConfigsReplaced(resource, {})
    for resource, values in after.configs.items():
        is_recreated = resource.resource_type is ResourceType.TOPIC and _is_recreated(
            resource.name, before, after
        )
        if is_recreated or before.configs.get(resource) != values:
            yield ConfigsReplaced(resource, values)


def _is_recreated(name: str, before: ClusterImage, after: ClusterImage) -> bool:
    """Whether a topic was deleted, with its configs, and created again."""
    old, new = before.topics.get(name), after.topics.get(name)
    return old is not None and new is not None and old.topic_id != new.topic_id


def _broker_changes(before: ClusterImage, after: ClusterImage) -> Iterator[MetadataChange]:
    """Registrations, fenced ones too."""
    for node_id in (*before.brokers, *before.fenced_brokers):
        if after.registration(node_id) is None:
            yield BrokerGone(node_id)
    for node_id in (*after.brokers, *after.fenced_brokers):
        broker = after.registration(node_id)
        assert broker is not None
        if before.registration(node_id) != broker:
            yield BrokerRegistered(broker)
    for node_id, epoch in after.admitted_epochs.items():
        if before.admitted_epochs.get(node_id) != epoch:
            yield BrokerAdmitted(node_id, epoch)
    for _, controller in _differences(before.controllers, after.controllers):
        if controller is not None:
            yield ControllerRegistered(controller)


def _acl_changes(before: ClusterImage, after: ClusterImage) -> Iterator[MetadataChange]:
    for pattern, acls in _differences(before.acls, after.acls):
        yield AclsReplaced(pattern, AclSet((), 0) if acls is None else acls)


def _differences(before: Mapping[K, V], after: Mapping[K, V]) -> Iterator[tuple[K, V | None]]:
    """Entries that are new or other; None for removed ones."""
    for key in before:
        if key not in after:
            yield key, None
    for key, value in after.items():
        if before.get(key) != value:
            yield key, value
