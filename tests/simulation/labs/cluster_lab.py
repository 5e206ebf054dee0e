"""Small clusters for tests: an image with brokers, and short ways to build requests."""

import random

from headwater.common.ids import NodeId
from headwater.controller.topic_changes import TopicAuthorization
from headwater.metadata.changes import BrokerRegistered, MetadataChange, apply
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage, Version
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from tests.simulation.fakes.seeded_random import SeededRandom

CLUSTER_ID = "TestClusterAAAAAAAAAAA"
STATIC = StaticConfig.parse({})
ALL_RIGHTS = TopicAuthorization(may_describe=lambda _: True, may_delete=lambda _: True)


def rng(seed: int = 1) -> SeededRandom:
    return SeededRandom(random.Random(seed))


def broker(node_id: int, rack: str | None = None) -> BrokerRegistration:
    return BrokerRegistration(node_id=NodeId(node_id), epoch=node_id + 100, rack=rack)


def cluster_of(*brokers: BrokerRegistration) -> ClusterImage:
    empty = ClusterImage(cluster_id=CLUSTER_ID)
    return apply(empty, map(BrokerRegistered, brokers), Version(1, 1))


def lone_broker() -> ClusterImage:
    empty = ClusterImage(cluster_id=CLUSTER_ID, is_standalone=True)
    return apply(empty, [BrokerRegistered(broker(0))], Version(1, 1))


def after(image: ClusterImage, *changes: MetadataChange) -> ClusterImage:
    version = image.version._replace(sequence=image.version.sequence + 1)
    return apply(image, changes, version)


def topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    assignment: dict[int, tuple[int, ...]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """One topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
            for number, replicas in (assignment or {}).items()
        ),
        configs=tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )
