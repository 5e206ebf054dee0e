"""Topics that the cluster makes by itself: those of the coordinators, and any on first use (TO-6).

A cluster that waits for its brokers must not make its internal topics with fewer replicas than it
was told to, because nothing adds them later. A standalone broker has nobody to wait for and makes
one replica.
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
    """Topics with the broker's defaults, or with their own settings where they are internal.

    The caller has asked whether topics may be made this way: `auto.create.topics.enable` is about
    clients' topics, the coordinators' own are made in any case. Topics that exist are left alone.
    """
    missing = [name for name in dict.fromkeys(names) if name not in image.topics]
    wanted = (creatable(name, static.settings, image) for name in missing)
    return create_topics(image, CreateTopicsRequest(topics=tuple(wanted)), static, rng)


def creatable(name: str, settings: BrokerSettings, image: ClusterImage) -> CreatableTopic:
    """How a topic is asked for that nobody described."""
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
