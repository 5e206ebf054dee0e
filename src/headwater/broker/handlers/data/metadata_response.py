"""Parts of Metadata responses.

The response about all topics is encoded once per version and listener and cached while the image
stays the same: with ten thousand topics, encoding it takes as long as a thousand Produce requests.
"""

from collections.abc import Callable
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.internal_topics import INTERNAL_TOPICS
from headwater.protocol.codec import Encoded, encode
from headwater.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NOT_REQUESTED: Final = -2147483648
"""Value of authorized operations if the request did not ask for them."""

_LISTENER_NOT_FOUND_SINCE: Final = 6


class MetadataResponses:
    """Cache of encoded responses about all topics."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._cached: dict[tuple[str, int], Encoded] = {}

    def about_all(
        self,
        image: ClusterImage,
        listener: str,
        version: int,
        make: Callable[[], MetadataResponse],
    ) -> Encoded:
        """Return the cached response; `make` is called if there is none."""
        if image is not self._image:
            self._image = image
            self._cached.clear()
        found = self._cached.get((listener, version))
        if found is None:
            found = self._cached[listener, version] = encode(make(), version)
        return found


def brokers_on(image: ClusterImage, listener: str) -> tuple[MetadataResponseBroker, ...]:
    """Return all brokers that have the client's listener."""
    found = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(
                    node_id=broker.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )
    return tuple(found)


def describe_topic(
    image: ClusterImage, topic: TopicImage, listener: str, version: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _describe(image, TopicPartition(topic.name, number), partition, listener, version)
            for number, partition in enumerate(topic.partitions)
        ),
    )


def leader_of(
    image: ClusterImage, partition: PartitionRegistration, listener: str
) -> tuple[NodeId, ErrorCode]:
    """Return the leader, if it can be reached on a listener, or an error (TO-7)."""
    broker = image.brokers.get(partition.leader)
    if broker is None:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if broker.endpoint(listener) is None:
        return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
    return partition.leader, ErrorCode.NONE


def offline_replicas(
    image: ClusterImage, partition: PartitionRegistration, name: TopicPartition
) -> tuple[NodeId, ...]:
    """Return the replicas whose broker or log directory is offline."""
    return tuple(
        [node_id for node_id in partition.replicas if not image.has_replica(node_id, name)]
    )


def _describe(
    image: ClusterImage,
    name: TopicPartition,
    partition: PartitionRegistration,
    listener: str,
    version: int,
) -> MetadataResponsePartition:
    leader, error = leader_of(image, partition, listener)
    if error is ErrorCode.LISTENER_NOT_FOUND and version < _LISTENER_NOT_FOUND_SINCE:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=name.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline_replicas(image, partition, name),
    )
