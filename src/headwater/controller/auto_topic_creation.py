"""Create internal topics and, on first use, other topics (TO-6).

Note: a cluster must not create its internal topics with fewer replicas than configured while
brokers are still starting, because nothing adds replicas later. A standalone broker creates them
with one replica.
"""

from collections.abc import Iterable

from headwater.common.ports import Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.controller.topic_creation import Results, create_topics
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def create_on_first_use(
    image: ClusterImage, names: Iterable[str], static: StaticConfig, rng: Random
) -> ControllerResult[Results]:
    """Create missing topics with default settings, internal ones with their own.

    The caller checks `auto.create.topics.enable`, which applies to clients' topics only.
    """
    missing = [name for name in dict.fromkeys(names) if name not in image.topics]
    wanted = (creatable(name, static.settings, image) for name in missing)
    return create_topics(image, CreateTopicsRequest(topics=tuple(wanted)), static, rng)


def creatable(name: str, settings: BrokerSettings, image: ClusterImage) -> CreatableTopic:
    """Return the CreateTopics entry of a topic that is created automatically."""
    if name == CONSUMER_OFFSETS:
        factor = settings.offsets_topic_replication_factor
        return CreatableTopic(
            name=CONSUMER_OFFSETS,
            num_partitions=settings.offsets_topic_num_partitions,
            replication_factor=1 if image.is_standalone else factor,
            configs=_configs(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(settings.offsets_topic_segment_bytes),
                }
            ),
        )
    if name == TRANSACTION_STATE:
        factor = settings.transaction_state_log_replication_factor
        in_sync = settings.transaction_state_log_min_isr
        return CreatableTopic(
            name=TRANSACTION_STATE,
            num_partitions=settings.transaction_state_log_num_partitions,
            replication_factor=1 if image.is_standalone else factor,
            configs=_configs(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(1 if image.is_standalone else in_sync),
                    "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                }
            ),
        )
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _configs(values: dict[str, str]) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name=name, value=value) for name, value in values.items())
