"""Metrics of the metadata quorum and of a KRaft node's replica of its log.

Under the names of Kafka's `raft-metrics`, `broker-metadata-metrics` and `MetadataLoader`. Kafka's
rates are counters here and its latencies histograms; its state, a text there, is a label.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.broker.metrics.prometheus_exposition import (
    Family,
    Sample,
    counter,
    gauge,
    histogram,
)
from headwater.metadata_store.raft.kafka_raft_metrics import STATES, KafkaRaftMetrics
from headwater.metadata_store.raft.metadata_loader import MetadataLoader
from headwater.metadata_store.raft.metadata_version import METADATA_VERSION
from headwater.raft.kafka_raft_client import KafkaRaftClient

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSources:
    """One replica of the metadata log and what is built from it."""

    client: KafkaRaftClient
    metrics: KafkaRaftMetrics
    loader: MetadataLoader
    now_ms: Callable[[], int]

    @property
    def state_name(self) -> str:
        """Kafka's `current-state`: a follower that is no voter is an observer."""
        name = self.client.state_name
        return "observer" if name == "follower" and not self.client.is_voter else name

    @property
    def lag_ms(self) -> int:
        """Age of the last applied record, if a later one is committed."""
        if self.loader.end.offset >= self.client.high_watermark:
            return 0
        return max(0, self.now_ms() - self.loader.last_timestamp)


def raft_families(sources: ReplicaSources) -> Iterator[Family]:
    """Metrics of the replica in the quorum."""
    name = "kafka_server_raft_metrics"

    def states() -> Iterator[Sample]:
        current = sources.state_name
        for each in STATES:
            yield Sample(value=int(each == current), labels=(("state", each),))

    yield Family(
        name=f"{name}_current_state",
        kind="gauge",
        doc="Role in the metadata quorum: 1 for the current state, 0 for the others.",
        samples=states,
    )
    yield gauge(
        f"{name}_current_leader",
        "Node id of the quorum's leader; -1 if it is not known.",
        lambda: _or_unknown(sources.client.leader_and_epoch.leader_id),
    )
    yield gauge(
        f"{name}_current_vote",
        "Node id that this replica has voted for in the current epoch; -1 for none.",
        lambda: _voted(sources.client),
    )
    yield gauge(
        f"{name}_current_epoch",
        "Epoch of the quorum.",
        lambda: sources.client.leader_and_epoch.epoch,
    )
    yield gauge(
        f"{name}_high_watermark",
        "Offset up to which the metadata log is known to be committed.",
        lambda: sources.client.high_watermark,
    )
    yield gauge(
        f"{name}_log_end_offset",
        "End of this replica's metadata log.",
        lambda: sources.client.end.offset,
    )
    yield gauge(
        f"{name}_number_of_voters", "Voters of the quorum.", lambda: len(sources.client.voters)
    )
    yield gauge(
        f"{name}_number_of_observers",
        "Observers that have fetched lately; 0 if this node does not lead the quorum.",
        lambda: sources.client.observer_count(sources.now_ms()),
    )
    yield histogram(
        f"{name}_election_latency_seconds",
        "Time from the start of an election until this replica knew the leader.",
        lambda: sources.metrics.election_latency,
    )
    yield histogram(
        f"{name}_commit_latency_seconds",
        "Time from an append of this leader until the records were committed.",
        lambda: sources.metrics.commit_latency,
    )
    yield counter(
        f"{name}_append_records_total",
        "Records appended to the metadata log as its leader.",
        lambda: sources.metrics.appended_records,
    )
    yield counter(
        f"{name}_fetch_records_total",
        "Records of the metadata log fetched from its leader.",
        lambda: sources.metrics.fetched_records,
    )
    yield from _loader_families(sources)


def _loader_families(sources: ReplicaSources) -> Iterator[Family]:
    name = "kafka_server_metadataloader"
    yield gauge(
        f"{name}_currentmetadataversion",
        "Feature level of metadata.version in this node's image.",
        lambda: sources.loader.image.features.get(METADATA_VERSION, 0),
    )
    yield counter(
        f"{name}_handleloadsnapshotcount_total",
        "Snapshots of the metadata log that were loaded since the start.",
        lambda: sources.loader.loaded_snapshots,
    )


def broker_metadata_families(sources: ReplicaSources) -> Iterator[Family]:
    """How far a broker of a KRaft cluster has applied the metadata log."""
    name = "kafka_server_broker_metadata_metrics_last_applied_record"
    yield gauge(
        f"{name}_offset",
        "Offset of the last metadata record that this broker has applied.",
        lambda: sources.loader.end.offset - 1,
    )
    yield gauge(
        f"{name}_timestamp",
        "Timestamp of the last applied batch of metadata records, in ms.",
        lambda: sources.loader.last_timestamp,
    )
    yield gauge(
        f"{name}_lag_ms",
        "Age of the last applied metadata record; 0 if all that are known to be committed are.",
        lambda: sources.lag_ms,
    )


def applied_families(sources: ReplicaSources) -> Iterator[Family]:
    """How far a controller has applied the metadata log."""
    name = "kafka_controller_kafkacontroller_lastappliedrecord"
    yield gauge(
        f"{name}offset",
        "Offset of the last metadata record that this controller has applied.",
        lambda: sources.loader.end.offset - 1,
    )
    yield gauge(
        f"{name}timestamp",
        "Timestamp of the last applied batch of metadata records, in ms.",
        lambda: sources.loader.last_timestamp,
    )
    yield gauge(
        f"{name}lagms",
        "Age of the last applied metadata record; 0 if all that are known to be committed are.",
        lambda: sources.lag_ms,
    )
    yield gauge(
        "kafka_controller_kafkacontroller_lastcommittedrecordoffset",
        "Offset of the last metadata record that is known to be committed.",
        lambda: sources.client.high_watermark - 1,
    )


def _or_unknown(node_id: int | None) -> int:
    return _UNKNOWN if node_id is None else node_id


def _voted(client: KafkaRaftClient) -> int:
    voted = client.election.voted_key
    return _UNKNOWN if voted is None else voted.id
