"""Create topics for existing logs, such as those of a Kafka broker.

Directory names and partition.metadata give topic names, topic ids and partitions; topic configs are
lost with the former cluster. So adopted topics get unlimited retention until it is configured.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId
from headwater.common.ports import Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.controller.topic_creation import creatable
from headwater.metadata.changes import (
    ConfigsReplaced,
    MetadataChange,
    ProducerIdsAllocated,
    TopicCreated,
)
from headwater.metadata.cluster_image import (
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.metadata.topic_ids import new_topic_id
from headwater.storage.log_manager.log_directory_scan import FoundPartition

_KEEP_EVERYTHING: Final = {"retention.ms": "-1", "retention.bytes": "-1"}

# Producer ids that the former cluster allocated, from 0 on, are in the logs and must not be
# allocated again.
_FIRST_PRODUCER_ID: Final = 1 << 40


def adopt(
    image: ClusterImage, found: Sequence[FoundPartition], settings: BrokerSettings, rng: Random
) -> list[MetadataChange]:
    """Return the changes that make this broker leader of all found partitions.

    `found` is sorted.
    """
    changes: list[MetadataChange] = []
    for name, group in groupby(found, lambda each: each.name.topic):
        partitions = {each.name.partition: each for each in group}
        topic_id = next((each.topic_id for each in partitions.values() if each.topic_id), None)
        topic = TopicImage(
            name=name,
            topic_id=topic_id or new_topic_id(image.names_by_id, rng),
            partitions=tuple(
                _led(NodeId(settings.node_id), partitions.get(number))
                for number in range(max(partitions) + 1)
            ),
        )
        changes.append(TopicCreated(topic))
        resource = ConfigResource(ResourceType.TOPIC, name)
        changes.append(ConfigsReplaced(resource, _configs(name, settings, image)))
    if changes:
        changes.append(ProducerIdsAllocated(_FIRST_PRODUCER_ID))
    return changes


def _led(node_id: NodeId, found: FoundPartition | None) -> PartitionRegistration:
    """Register a partition with a new leader epoch: the old cluster may still run."""
    epoch = 0 if found is None else found.leader_epoch + 1
    return PartitionRegistration(
        replicas=(node_id,), isr=(node_id,), leader=node_id, leader_epoch=epoch
    )


def _configs(name: str, settings: BrokerSettings, image: ClusterImage) -> Mapping[str, str]:
    if name not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        return _KEEP_EVERYTHING
    return {each.name: each.value or "" for each in creatable(name, settings, image).configs}
