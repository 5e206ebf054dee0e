"""Metrics of the controller, under the names of Kafka's `KafkaController`.

As in Kafka, the counts of partitions are 0 on brokers that are not the controller, so that their
sum over the cluster is right.
"""

from collections.abc import Callable, Iterator

from headwater.broker.metrics.prometheus_exposition import Family, gauge
from headwater.broker.node.broker import Broker
from headwater.metadata.cluster_image import NO_LEADER, PartitionRegistration


def controller_families(broker: Broker) -> Iterator[Family]:
    name = "kafka_controller_kafkacontroller"
    yield gauge(
        f"{name}_activecontrollercount",
        "Whether this broker is the active controller (0 or 1).",
        lambda: int(_is_controller(broker)),
    )
    yield gauge(
        f"{name}_activebrokercount",
        "Live brokers in this broker's metadata.",
        lambda: len(broker.image.brokers),
    )
    yield gauge(
        f"{name}_globaltopiccount", "Topics in the cluster.", lambda: len(broker.image.topics)
    )
    yield gauge(
        f"{name}_globalpartitioncount",
        "Partitions in the cluster; 0 if this broker is not the controller.",
        lambda: _count(broker, lambda _: True),
    )
    yield gauge(
        f"{name}_offlinepartitionscount",
        "Partitions without a leader; 0 if this broker is not the controller.",
        lambda: _count(broker, lambda each: each.leader == NO_LEADER),
    )
    yield gauge(
        f"{name}_preferredreplicaimbalancecount",
        "Partitions not led by their preferred replica; 0 if this broker is not the controller.",
        lambda: _count(broker, lambda each: each.leader != each.replicas[0]),
    )


def _is_controller(broker: Broker) -> bool:
    return broker.controller_access.controller is not None


def _count(broker: Broker, matches: Callable[[PartitionRegistration], bool]) -> int:
    if not _is_controller(broker):
        return 0
    return sum(
        matches(each)
        for topic in broker.image.topics.values()
        if not topic.is_deleting
        for each in topic.partitions
    )
