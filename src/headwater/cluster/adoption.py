"""Topics for logs that nobody has told us about: a Kafka broker's directory becomes ours.

The folders tell names, ids and numbers of partitions; the configs of topics are lost with the
cluster that had them. So no adopted topic deletes anything by age or size until somebody says so.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from headwater.cluster.facts import ConfigsReplaced, Fact, ProducerIdsAllocated, TopicCreated
from headwater.cluster.image import ClusterImage, ConfigResource, Partition, Topic
from headwater.cluster.internal_topics import creatable
from headwater.cluster.topic_ids import fresh_topic_id
from headwater.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.model.broker_settings import BrokerSettings
from headwater.model.config_terms import ResourceType
from headwater.model.ids import NodeId
from headwater.model.ports import Dice
from headwater.storage.folder_survey import FoundPartition

_KEEP_EVERYTHING: Final = {"retention.ms": "-1", "retention.bytes": "-1"}

# Ids that the former cluster gave out are in the logs, and must not be given out again. It gave
# them out from 0 on.
_FIRST_PRODUCER_ID: Final = 1 << 40


def adopt(
    image: ClusterImage, found: Sequence[FoundPartition], settings: BrokerSettings, dice: Dice
) -> list[Fact]:
    """The facts under which this broker leads all that was found. `found` is sorted."""
    facts: list[Fact] = []
    for name, group in groupby(found, lambda each: each.name.topic):
        partitions = {each.name.partition: each for each in group}
        topic_id = next((each.topic_id for each in partitions.values() if each.topic_id), None)
        topic = Topic(
            name=name,
            topic_id=topic_id or fresh_topic_id(image.names_by_id, dice),
            partitions=tuple(
                _led(NodeId(settings.node_id), partitions.get(number))
                for number in range(max(partitions) + 1)
            ),
        )
        facts.append(TopicCreated(topic))
        resource = ConfigResource(ResourceType.TOPIC, name)
        facts.append(ConfigsReplaced(resource, _configs(name, settings, image)))
    if facts:
        facts.append(ProducerIdsAllocated(_FIRST_PRODUCER_ID))
    return facts


def _led(node_id: NodeId, found: FoundPartition | None) -> Partition:
    """Under a new epoch: the former cluster may have gone on under the one that the log has."""
    epoch = 0 if found is None else found.leader_epoch + 1
    return Partition(replicas=(node_id,), isr=(node_id,), leader=node_id, leader_epoch=epoch)


def _configs(name: str, settings: BrokerSettings, image: ClusterImage) -> Mapping[str, str]:
    if name not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        return _KEEP_EVERYTHING
    return {each.name: each.value or "" for each in creatable(name, settings, image).configs}
