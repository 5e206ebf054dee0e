"""Metrics of a broker, under the names of Kafka's own metrics.

Names are as the usual JMX exporter derives them from Kafka's: lower case, `kafka_` and the group
first, `_total` for counters.

Note: values are computed at scrape time. Handlers increment plain integers (`request_counters`,
`HostedTopic`); everything else is read from the broker's state.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.broker.metrics.prometheus_exposition import Family, Number, Sample, counter, gauge
from headwater.broker.node.broker import Broker
from headwater.broker.requests.request_counters import BUCKETS, RequestCounters, bucket_bound_ns
from headwater.network.socket_server import SocketServer
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.replication.partition import HostedTopic
from headwater.replication.replica_fetcher_manager import ReplicaFetcherManager
from headwater.storage.cleaner.log_cleaner import LogCleaner
from headwater.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    from headwater.broker.authentication.sasl_listener import AuthenticationCounters, SaslListener

_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The components of a broker that metrics are read from."""

    broker: Broker
    requests: Mapping[ApiKey, RequestCounters]
    server: SocketServer
    cleaner: LogCleaner | None
    logins: "Mapping[str, SaslListener]" = field(default_factory=dict)


def broker_families(watched: MetricSources) -> list[Family]:
    return [
        *_of_requests(watched.requests),
        *_of_topics(watched.broker),
        *_of_partitions(watched.broker),
        *_of_logs(watched.broker),
        *_of_reads(watched.broker),
        *_of_waiting(watched.broker),
        *_of_cleaner(watched.cleaner),
        *_of_connections(watched.server),
        *_of_logins(watched.logins),
    ]


def _of_logins(listeners: "Mapping[str, SaslListener]") -> Iterator[Family]:
    def family(name: str, doc: str, read: "Callable[[AuthenticationCounters], int]") -> Family:
        def samples() -> Iterator[Sample]:
            for listener in listeners.values():
                label = ("listener", listener.name)
                yield Sample(value=read(listener.counters), labels=(label,))

        return Family(
            name=f"kafka_server_socketservermetrics_{name}_total",
            kind="counter",
            doc=doc,
            samples=samples,
        )

    if not listeners:
        return
    yield family(
        "successful_authentication", "Successful authentications.", lambda each: each.succeeded
    )
    yield family("failed_authentication", "Failed authentications.", lambda each: each.failed)
    yield family(
        "successful_reauthentication", "Successful re-authentications.", lambda each: each.renewed
    )
    yield family(
        "failed_reauthentication",
        "Failed re-authentications.",
        lambda each: each.not_renewed,
    )
    yield family(
        "expired_connections_killed",
        "Connections closed because their SASL session had expired.",
        lambda each: each.expired,
    )


def _of_requests(requests: Mapping[ApiKey, RequestCounters]) -> Iterator[Family]:
    def counts() -> Iterator[Sample]:
        for key, counters in requests.items():
            for version, count in enumerate(counters.versions):
                if count:
                    label = str(version) if version <= counters.newest else "unknown"
                    yield Sample(value=count, labels=(_request(key), ("version", label)))

    def errors() -> Iterator[Sample]:
        for key, counters in requests.items():
            for code, count in list(counters.errors.items()):
                yield Sample(value=count, labels=(_request(key), ("error", code.name)))

    def times() -> Iterator[Sample]:
        for key, counters in requests.items():
            if counters.count:
                yield from _histogram(key, counters)

    name = "kafka_network_requestmetrics"
    yield Family(
        name=f"{name}_requests_total",
        kind="counter",
        doc="Answered requests by API and version.",
        samples=counts,
    )
    yield Family(
        name=f"{name}_errors_total",
        kind="counter",
        doc="Error codes in responses by API and code.",
        samples=errors,
    )
    yield Family(
        name=f"{name}_totaltime_seconds",
        kind="histogram",
        doc="Time from receiving a request to its response, including time in a purgatory.",
        samples=times,
    )


def _request(key: ApiKey) -> tuple[str, str]:
    return ("request", APIS[key].name)


def _histogram(key: ApiKey, counters: RequestCounters) -> Iterator[Sample]:
    # Copied first, so that sum, count and buckets agree.
    buckets, total_ns = list(counters.buckets), counters.total_ns
    below = 0
    for index, count in enumerate(buckets):
        below += count
        is_last = index == BUCKETS - 1
        bound = "+Inf" if is_last else repr(bucket_bound_ns(index) / _NS_PER_S)
        yield Sample(suffix="_bucket", value=below, labels=(_request(key), ("le", bound)))
    yield Sample(suffix="_sum", value=total_ns / _NS_PER_S, labels=(_request(key),))
    yield Sample(suffix="_count", value=below, labels=(_request(key),))


def _of_topics(broker: Broker) -> Iterator[Family]:
    def family(name: str, doc: str, read: Callable[[HostedTopic], int]) -> Family:
        def samples() -> Iterator[Sample]:
            for topic in list(broker.partitions.topics()):
                yield Sample(value=read(topic), labels=(("topic", topic.name),))

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
    yield gauge(f"{name}_partitioncount", "Partitions on this broker.", lambda: len(partitions))
    yield gauge(
        f"{name}_leadercount",
        "Partitions that this broker leads.",
        lambda: sum(each.state.leader == broker.node_id for each in partitions),
    )
    yield gauge(
        f"{name}_underreplicatedpartitions",
        "Led partitions with fewer in-sync replicas than replicas.",
        lambda: sum(
            each.state.leader == broker.node_id and len(each.state.isr) < len(each.state.replicas)
            for each in partitions
        ),
    )
    yield gauge(
        f"{name}_underminisrpartitioncount",
        "Led partitions with fewer in-sync replicas than min.insync.replicas.",
        lambda: sum(
            each.is_leader
            and each.log is not None
            and each.is_under_min_isr(each.log.settings.min_insync_replicas)
            for each in partitions
        ),
    )
    if partitions.replicas is not None:
        yield from _of_replicas(partitions.replicas)
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Offline log directories.",
        lambda: len(directories.directories) - len(directories.serving()),
    )
    yield gauge(
        "kafka_controller_kafkacontroller_globaltopiccount",
        "Topics in the cluster.",
        lambda: len(broker.image.topics),
    )


def _of_replicas(replicas: ReplicaFetcherManager) -> Iterator[Family]:
    """Metrics that exist only in a cluster."""
    manager, topics = "kafka_server_replicamanager", "kafka_server_brokertopicmetrics"
    yield counter(
        f"{manager}_isrshrinks_total",
        "ISR shrinks of led partitions.",
        lambda: replicas.in_sync_shrinks,
    )
    yield counter(
        f"{manager}_isrexpands_total",
        "ISR expansions of led partitions.",
        lambda: replicas.in_sync_expands,
    )
    yield counter(
        f"{topics}_replicationbytesin_total",
        "Bytes fetched from leaders as a follower.",
        lambda: replicas.bytes_in,
    )
    yield counter(
        f"{topics}_replicationbytesout_total",
        "Bytes fetched by followers.",
        lambda: replicas.bytes_out,
    )


def _of_logs(broker: Broker) -> Iterator[Family]:
    def family(name: str, doc: str, read: Callable[[UnifiedLog], Number]) -> Family:
        def samples() -> Iterator[Sample]:
            for hosted in list(broker.partitions):
                # Logs that were not opened since startup are skipped.
                if hosted.log is not None:
                    topic, partition = hosted.name
                    labels = (("topic", topic), ("partition", str(partition)))
                    yield Sample(value=read(hosted.log), labels=labels)

        return Family(name=f"kafka_log_log_{name}", kind="gauge", doc=doc, samples=samples)

    yield family("size", "Log size in bytes.", lambda log: log.size_bytes)
    yield family("logstartoffset", "Log start offset.", lambda log: log.log_start_offset)
    yield family("logendoffset", "Log end offset.", lambda log: log.end_offset)


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


def _of_waiting(broker: Broker) -> Iterator[Family]:
    sessions = broker.sessions
    name = "kafka_server_fetchsessioncache"
    yield gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests waiting in purgatories.",
        lambda: len(broker.timer),
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


def _of_connections(server: SocketServer) -> Iterator[Family]:
    def connections() -> Iterator[Sample]:
        counts = {endpoint.name: 0 for endpoint in server.endpoints}
        for connection in server.connections:
            counts[connection.address.listener] += 1
        for listener, count in counts.items():
            yield Sample(value=count, labels=(("listener", listener),))

    yield Family(
        name="kafka_server_socketserver_connections",
        kind="gauge",
        doc="Open connections by listener.",
        samples=connections,
    )

    def failed_handshakes() -> Iterator[Sample]:
        for name in (endpoint.name for endpoint in server.endpoints):
            count = server.failed_handshakes.get(name, 0)
            yield Sample(value=count, labels=(("listener", name),))

    yield Family(
        name="kafka_server_socketserver_failed_handshakes_total",
        kind="counter",
        doc="Failed TLS handshakes by listener.",
        samples=failed_handshakes,
    )
    yield gauge(
        "kafka_server_socketserver_unansweredrequests",
        "Requests received and not yet answered.",
        lambda: sum(connection.unanswered_count for connection in server.connections),
    )
