"""Metrics of a broker, under the names of Kafka's own metrics.

Names are as the usual JMX exporter derives them from Kafka's: lower case, `kafka_` and the group
first, `_total` for counters.

Note: values are computed at scrape time. Handlers increment plain integers (`request_counters`,
`HostedTopic`); everything else is read from the broker's state.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.broker.metrics.coordinator_metrics import coordinator_families
from headwater.broker.metrics.prometheus_exposition import (
    Family,
    Number,
    Sample,
    counter,
    gauge,
    histogram,
)
from headwater.broker.metrics.request_metrics import (
    connection_families,
    login_families,
    request_families,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.latency_histogram import LatencyHistogram
from headwater.network.socket_server import SocketServer
from headwater.protocol.api_key import ApiKey
from headwater.replication.partition import HostedTopic, Partition
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_fetcher_manager import ReplicaFetcherManager
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.io.segment_cache import SegmentCache
from headwater.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    from headwater.broker.authentication.sasl_listener import SaslListener

_OTHER_TOPICS: Final = "__other__"
"""Label of the topics beyond `headwater.metrics.topics.max`."""

_DELAYED_OPERATIONS: Final = ("Produce", "Fetch", "DeleteRecords")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The components of a broker that metrics are read from."""

    broker: Broker
    requests: Mapping[ApiKey, RequestCounters]
    server: SocketServer
    cleaner: LogCleaner | None
    flush_times: LatencyHistogram
    logins: "Mapping[str, SaslListener]" = field(default_factory=dict)


def broker_families(watched: MetricSources) -> list[Family]:
    return [
        *request_families(watched.requests),
        *_of_topics(watched.broker),
        *_of_partitions(watched.broker),
        *_of_logs(watched.broker),
        _of_flushes(watched.flush_times),
        *_of_reads(watched.broker),
        *_of_cache(watched.broker.ranges.cache),
        *_of_waiting(watched.broker),
        *coordinator_families(watched.broker),
        *_of_cleaner(watched.cleaner),
        *connection_families(watched.server),
        *login_families(watched.logins),
    ]


def _of_topics(broker: Broker) -> Iterator[Family]:
    limit = broker.settings.headwater_metrics_topics_max

    def family(name: str, doc: str, read: Callable[[HostedTopic], int]) -> Family:
        def samples() -> Iterator[Sample]:
            topics = list(broker.partitions.topics())
            for topic in topics[:limit]:
                yield Sample(value=read(topic), labels=(("topic", topic.name),))
            if len(topics) > limit:
                rest = sum(map(read, topics[limit:]))
                yield Sample(value=rest, labels=(("topic", _OTHER_TOPICS),))

        return Family(
            name=f"kafka_server_brokertopicmetrics_{name}_total",
            kind="counter",
            doc=doc,
            samples=samples,
        )

    yield family("messagesin", "Records appended by clients.", lambda topic: topic.records_in)
    yield family("bytesin", "Bytes appended by clients.", lambda topic: topic.bytes_in)
    yield family("bytesout", "Bytes fetched by consumers.", lambda topic: topic.bytes_out)


def _of_partitions(broker: Broker) -> Iterator[Family]:
    partitions, directories = broker.partitions, broker.directories
    name = "kafka_server_replicamanager"

    def led() -> Iterator[Partition]:
        return (each for each in partitions if each.is_leader)

    yield gauge(f"{name}_partitioncount", "Partitions on this broker.", lambda: len(partitions))
    yield gauge(
        f"{name}_leadercount",
        "Partitions that this broker leads.",
        lambda: sum(1 for _ in led()),
    )
    yield gauge(
        f"{name}_underreplicatedpartitions",
        "Led partitions with fewer in-sync replicas than replicas.",
        lambda: sum(len(each.state.isr) < len(each.state.replicas) for each in led()),
    )
    yield gauge(
        f"{name}_underminisrpartitioncount",
        "Led partitions with fewer in-sync replicas than min.insync.replicas.",
        lambda: sum(
            each.log is not None and each.is_under_min_isr(each.log.settings.min_insync_replicas)
            for each in led()
        ),
    )
    yield gauge(
        f"{name}_atminisrpartitioncount",
        "Led partitions that one more failed replica puts below min.insync.replicas.",
        lambda: sum(
            each.log is not None and len(each.state.isr) == each.log.settings.min_insync_replicas
            for each in led()
        ),
    )
    yield gauge(
        f"{name}_reassigningpartitions",
        "Led partitions that are being reassigned.",
        lambda: sum(bool(each.state.adding or each.state.removing) for each in led()),
    )
    yield gauge(
        f"{name}_offlinereplicacount",
        "Replicas on offline log directories.",
        lambda: sum(each.log is not None and each.log.failure is not None for each in partitions),
    )
    yield from _of_replicas(partitions.replicas)
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Offline log directories.",
        lambda: len(directories.directories) - len(directories.serving()),
    )


def _of_replicas(replicas: ReplicaFetcherManager | None) -> Iterator[Family]:
    """Metrics of replication; all zero on a standalone broker."""
    manager, topics = "kafka_server_replicamanager", "kafka_server_brokertopicmetrics"
    yield counter(
        f"{manager}_isrshrinks_total",
        "ISR shrinks of led partitions.",
        lambda: replicas.in_sync_shrinks if replicas is not None else 0,
    )
    yield counter(
        f"{manager}_isrexpands_total",
        "ISR expansions of led partitions.",
        lambda: replicas.in_sync_expands if replicas is not None else 0,
    )
    yield gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Largest number of committed records that a follower on this broker has yet to fetch.",
        lambda: replicas.max_lag if replicas is not None else 0,
    )
    yield counter(
        f"{topics}_replicationbytesin_total",
        "Bytes fetched from leaders as a follower.",
        lambda: replicas.bytes_in if replicas is not None else 0,
    )
    yield counter(
        f"{topics}_replicationbytesout_total",
        "Bytes fetched by followers.",
        lambda: replicas.bytes_out if replicas is not None else 0,
    )


def _of_logs(broker: Broker) -> Iterator[Family]:
    def family(name: str, doc: str, read: Callable[[UnifiedLog], Number]) -> Family:
        def samples() -> Iterator[Sample]:
            topics = list(broker.partitions.topics())[
                : broker.settings.headwater_metrics_topics_max
            ]
            named = {topic.name for topic in topics}
            for hosted in [each for each in broker.partitions if each.topic.name in named]:
                # Logs that were not opened since startup are skipped.
                if hosted.log is not None:
                    topic, partition = hosted.name
                    labels = (("topic", topic), ("partition", str(partition)))
                    yield Sample(value=read(hosted.log), labels=labels)

        return Family(name=f"kafka_log_log_{name}", kind="gauge", doc=doc, samples=samples)

    yield family("size", "Log size in bytes.", lambda log: log.size_bytes)
    yield family("logstartoffset", "Log start offset.", lambda log: log.log_start_offset)
    yield family("logendoffset", "Log end offset.", lambda log: log.end_offset)


def _of_flushes(times: LatencyHistogram) -> Family:
    return histogram(
        "kafka_log_logflushstats_logflushtime_seconds",
        "Time of flushing a log file to disk (LogFlushRateAndTimeMs).",
        lambda: times,
    )


def _of_reads(broker: Broker) -> Iterator[Family]:
    ranges = broker.ranges

    def reads() -> list[Sample]:
        return [
            Sample(value=ranges.hot_count, labels=(("from", "cache"),)),
            Sample(value=ranges.cold_count, labels=(("from", "disk"),)),
        ]

    yield Family(
        name="headwater_reads_total",
        kind="counter",
        doc="Log reads, from the page cache or directly from disk.",
        samples=reads,
    )
    yield Family(
        name="headwater_read_bytes_total",
        kind="counter",
        doc="Bytes of log reads, from the page cache (hot) or directly from disk (cold).",
        samples=lambda: [
            Sample(value=ranges.hot_bytes, labels=(("from", "cache"),)),
            Sample(value=ranges.cold_bytes, labels=(("from", "disk"),)),
        ],
    )
    yield gauge(
        "headwater_cold_reads_waiting",
        "Queued reads from disk.",
        lambda: ranges.waiting_count,
    )
    yield gauge(
        "headwater_cold_read_bytes",
        "Bytes of reads from disk in progress.",
        lambda: ranges.cold_bytes_under_way,
    )

    def queues() -> list[Sample]:
        return [
            Sample(value=value, labels=(("logDirectory", str(directory)), ("state", state)))
            for directory, queue in ranges.queues.items()
            for state, value in (
                ("waiting", queue.waiting_count),
                ("reading", queue.reads_under_way),
            )
        ]

    yield Family(
        name="headwater_cold_reads",
        kind="gauge",
        doc="Reads from disk by log directory, queued and in progress.",
        samples=queues,
    )
    yield Family(
        name="headwater_cold_reads_merged_total",
        kind="counter",
        doc="Reads from disk that were answered with the bytes of another consumer's read.",
        samples=lambda: [Sample(value=ranges.merged_count)],
    )


def _of_cache(cache: SegmentCache | None) -> Iterator[Family]:
    """Metrics of headwater.cache.dir; all zero without one."""
    yield counter(
        "headwater_cache_hit_bytes_total",
        "Bytes read from headwater.cache.dir instead of the log's disk.",
        lambda: 0 if cache is None else cache.hit_bytes,
    )
    yield counter(
        "headwater_cache_miss_bytes_total",
        "Bytes that were neither in the page cache nor in headwater.cache.dir.",
        lambda: 0 if cache is None else cache.miss_bytes,
    )
    yield gauge(
        "headwater_cache_used_bytes",
        "Bytes in headwater.cache.dir.",
        lambda: 0 if cache is None else cache.used_bytes,
    )
    yield counter(
        "headwater_cache_evictions_total",
        "Evictions from headwater.cache.dir, each of up to 16 MiB or a 1024th of its size.",
        lambda: 0 if cache is None else cache.eviction_count,
    )
    yield gauge(
        "headwater_cache_available",
        "Whether headwater.cache.dir is in use (0 or 1); 0 after its disk has failed.",
        lambda: int(cache is not None and cache.is_available),
    )


def _of_waiting(broker: Broker) -> Iterator[Family]:
    sessions = broker.sessions
    name = "kafka_server_fetchsessioncache"
    yield Family(
        name="kafka_server_delayedoperationpurgatory_purgatorysize",
        kind="gauge",
        doc="Requests that wait in a purgatory, by operation.",
        samples=lambda: _purgatory_sizes(broker.timer),
    )
    yield gauge(f"{name}_numincrementalfetchsessions", "Fetch sessions.", lambda: len(sessions))
    yield gauge(
        f"{name}_numincrementalfetchpartitionscached",
        "Partitions in fetch sessions.",
        lambda: sessions.partition_count,
    )
    yield counter(
        f"{name}_incrementalfetchsessionevictions_total",
        "Evicted fetch sessions.",
        lambda: sessions.evicted_count,
    )


def _purgatory_sizes(timer: Timer) -> Iterator[Sample]:
    # Counted here instead of where requests begin to wait, which is on the hot path.
    counts = Counter(getattr(task, "delayed_operation", None) for task in timer.waiting())
    for operation in _DELAYED_OPERATIONS:
        yield Sample(value=counts[operation], labels=(("delayedOperation", operation),))


def _of_cleaner(cleaner: LogCleaner | None) -> Iterator[Family]:
    if cleaner is None:
        return
    yield gauge(
        "kafka_log_logcleanermanager_uncleanablepartitionscount",
        "Partitions that the log cleaner cannot compact.",
        lambda: len(cleaner.uncleanable),
    )
    yield gauge(
        "kafka_log_logcleaner_busy",
        "Whether the log cleaner is compacting a log (0 or 1).",
        lambda: int(cleaner.is_busy),
    )
