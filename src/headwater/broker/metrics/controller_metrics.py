"""Metrics of the controller, under the names of Kafka's `KafkaController`.

Counts of brokers and partitions are 0 on nodes that are not the active controller, so that their
sum over the cluster is right.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.broker.metrics.prometheus_exposition import Family, counter, gauge
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionRegistration

_NAME = "kafka_controller_kafkacontroller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSources:
    """What the metrics of a controller are read from."""

    image: Callable[[], ClusterImage]
    is_active: Callable[[], bool]


@dataclass(slots=True)
class QuorumControllerCounters:
    """Events of a KRaft controller since its start."""

    new_active_controllers: int = 0
    timed_out_brokers: int = 0


def controller_families(sources: ControllerSources) -> Iterator[Family]:
    """Metrics of controllers of any kind."""

    def count(matches: Callable[[PartitionRegistration], bool]) -> int:
        if not sources.is_active():
            return 0
        return sum(
            matches(each)
            for topic in sources.image().topics.values()
            if not topic.is_deleting
            for each in topic.partitions
        )

    yield gauge(
        f"{_NAME}_activecontrollercount",
        "Whether this node is the active controller (0 or 1).",
        lambda: int(sources.is_active()),
    )
    yield gauge(
        f"{_NAME}_activebrokercount",
        "Live brokers in this node's metadata.",
        lambda: len(sources.image().brokers),
    )
    yield gauge(
        f"{_NAME}_globaltopiccount", "Topics in the cluster.", lambda: len(sources.image().topics)
    )
    yield gauge(
        f"{_NAME}_globalpartitioncount",
        "Partitions in the cluster; 0 if this node is not the controller.",
        lambda: count(lambda _: True),
    )
    yield gauge(
        f"{_NAME}_offlinepartitionscount",
        "Partitions without a leader; 0 if this node is not the controller.",
        lambda: count(lambda each: each.leader == NO_LEADER),
    )
    yield gauge(
        f"{_NAME}_preferredreplicaimbalancecount",
        "Partitions not led by their preferred replica; 0 if this node is not the controller.",
        lambda: count(lambda each: each.leader != each.replicas[0]),
    )


def quorum_controller_families(
    sources: ControllerSources, counters: QuorumControllerCounters
) -> Iterator[Family]:
    """Metrics that only KRaft controllers have."""
    yield gauge(
        f"{_NAME}_fencedbrokercount",
        "Registered brokers that are fenced; 0 if this node is not the controller.",
        lambda: len(sources.image().fenced_brokers) if sources.is_active() else 0,
    )
    yield counter(
        f"{_NAME}_newactivecontrollerscount_total",
        "Elections of an active controller that this node has seen.",
        lambda: counters.new_active_controllers,
    )
    yield counter(
        f"{_NAME}_timedoutbrokerheartbeatcount_total",
        "Brokers that this controller fenced because their session had ended.",
        lambda: counters.timed_out_brokers,
    )
    yield gauge(
        f"{_NAME}_metadataerrorcount",
        "Always 0: a controller that cannot apply a metadata record stops.",
        lambda: 0,
    )
