"""Derive live brokers and offline replicas from UpdateMetadata. Pure.

Note: a request names all live brokers but only some partitions. A broker that is missing is gone,
while a partition that is missing keeps its state.
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
    """Return what is new to the broker `node_id`, which has this image."""
    offline = _offline_replicas(request, image)
    brokers: dict[NodeId, BrokerRegistration] = {}
    for live in request.live_brokers:
        live_id = NodeId(live.id)
        # The request has no epochs of other brokers; a leader learns these from their fetches.
        epoch = request.broker_epoch if live_id == node_id else NO_EPOCH
        offline_replicas = offline.get(live_id, frozenset())
        brokers[live_id] = replace(_broker(live, epoch), offline_replicas=offline_replicas)
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
    """Return offline replicas by broker; partitions not in the request keep theirs."""
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
