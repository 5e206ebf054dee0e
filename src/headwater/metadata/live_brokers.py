"""What UpdateMetadata tells of brokers: who lives, where, and what of theirs is offline. Pure.

What a reader would get wrong: a request names all living brokers, but only some partitions. So who
is not named is gone, while of a partition that is not named what was said before still holds.
"""

from dataclasses import replace

from headwater.common.ids import NO_EPOCH, NodeId, TopicPartition
from headwater.metadata.changes import BrokerGone, BrokerRegistered, MetadataChange
from headwater.metadata.cluster_image import BrokerEndpoint, BrokerRegistration, ClusterImage
from headwater.metadata.control_requests import FULL, SECURITY_PROTOCOLS
from headwater.protocol.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest


def broker_changes(
    request: UpdateMetadataRequest, image: ClusterImage, node_id: NodeId
) -> list[MetadataChange]:
    """What is news to the broker `node_id`, which has this image."""
    offline = _offline_replicas(request, image)
    brokers: dict[NodeId, BrokerRegistration] = {}
    for live in request.live_brokers:
        told = NodeId(live.id)
        # The epochs of others are not told: whoever must know one hears it from that broker.
        epoch = request.broker_epoch if told == node_id else NO_EPOCH
        offline_replicas = offline.get(told, frozenset())
        brokers[told] = replace(_broker(live, epoch), offline_replicas=offline_replicas)
    changes: list[MetadataChange] = [
        BrokerGone(each) for each in image.brokers if each not in brokers
    ]
    changes += [
        BrokerRegistered(broker)
        for each, broker in brokers.items()
        if image.brokers.get(each) != broker
    ]
    return changes


def _broker(live: UpdateMetadataBroker, epoch: int) -> BrokerRegistration:
    return BrokerRegistration(
        node_id=NodeId(live.id),
        epoch=epoch,
        rack=live.rack,
        endpoints=tuple(
            BrokerEndpoint(
                listener=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=SECURITY_PROTOCOLS[each.security_protocol],
            )
            for each in live.endpoints
        ),
    )


def _offline_replicas(
    request: UpdateMetadataRequest, image: ClusterImage
) -> dict[NodeId, frozenset[TopicPartition]]:
    """What brokers cannot serve; of partitions that are not told, what was said before."""
    found: dict[NodeId, set[TopicPartition]] = {}
    if request.type != FULL:
        found = {
            key: set(each.offline_replicas)
            for key, each in image.brokers.items()
            if each.offline_replicas
        }
    for topic in request.topic_states:
        for state in topic.partition_states:
            if found or state.offline_replicas:
                name = TopicPartition(topic.topic_name, state.partition_index)
                for names in found.values():
                    names.discard(name)
                for node_id in state.offline_replicas:
                    found.setdefault(NodeId(node_id), set()).add(name)
    return {key: frozenset(names) for key, names in found.items()}
