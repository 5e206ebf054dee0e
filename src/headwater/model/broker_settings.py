"""The settings of a broker, under Kafka's own names.

Field `num_partitions` is Kafka's `num.partitions`. Each field says in one place how its text is
read, its default, and what it means; `reach` says whether it may change while the broker runs.
Those that topics inherit are in `topic_synonyms`. That a setting is known here does not mean
that something obeys it yet: docs/SETTINGS.md says which are.
"""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TypeVar

from headwater.model.setting_kinds import (
    INT_MAX,
    LONG_MAX,
    SHORT_MAX,
    SettingKind,
    Value,
    boolean,
    counts_by_name,
    double,
    integer,
    long,
    names,
    one_of,
    optional,
    rate,
    text,
)
from headwater.model.storage_settings import StorageSettings
from headwater.model.topic_settings import kafka_name

T = TypeVar("T")


class Reach(Enum):
    """How far a change reaches while brokers run."""

    READ_ONLY = "read only"
    PER_BROKER = "per broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting:
    """What is known of one setting, apart from its value."""

    name: str
    kind: SettingKind[Value | None]
    default: Value | None
    reach: Reach
    doc: str


def _setting(kind: SettingKind[T], default: T, doc: str, reach: Reach = Reach.READ_ONLY) -> T:
    return field(default=default, metadata={"kind": kind, "doc": doc, "reach": reach})


def _wide(kind: SettingKind[T], default: T, doc: str) -> T:
    return _setting(kind, default, doc, Reach.CLUSTER_WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One broker's settings with their values in Python's types."""

    # Who it is and where it listens.
    node_id: int = _setting(integer(0), 0, "The id of this broker in its cluster.")
    broker_id: int = _setting(integer(-1), -1, "The old name of node.id.")
    broker_rack: str | None = _setting(
        optional(text()), None, "Where the broker stands; replicas are spread over racks."
    )
    listeners: tuple[str, ...] = _setting(
        names(), ("PLAINTEXT://:9092",), "Sockets to listen on, as NAME://host:port."
    )
    advertised_listeners: tuple[str, ...] | None = _setting(
        optional(names()), None, "The addresses that clients are told; null tells the listeners."
    )
    listener_security_protocol_map: tuple[str, ...] = _setting(
        names(), ("PLAINTEXT:PLAINTEXT",), "Which protocol each listener speaks, as NAME:PROTOCOL."
    )
    inter_broker_listener_name: str | None = _setting(
        optional(text()), None, "The listener that brokers use among themselves."
    )
    security_inter_broker_protocol: str = _setting(
        one_of("PLAINTEXT"), "PLAINTEXT", "What brokers speak when no listener is named for them."
    )

    # Network.
    num_network_threads: int = _setting(
        integer(1), 3, "Taken for compatibility; one loop serves all."
    )
    num_io_threads: int = _setting(integer(1), 8, "Taken for compatibility; one loop serves all.")
    background_threads: int = _setting(integer(1), 10, "Threads for work that may block.")
    queued_max_requests: int = _setting(integer(1), 500, "Requests that may wait for an answer.")
    queued_max_request_bytes: int = _setting(
        long(-1), -1, "Bytes of requests that may wait for an answer; -1 sets no limit."
    )
    request_timeout_ms: int = _setting(
        integer(0), 30_000, "How long a broker waits for another one's answer."
    )
    socket_request_max_bytes: int = _setting(
        integer(1), 104_857_600, "The largest request; a larger one closes the connection."
    )
    socket_send_buffer_bytes: int = _setting(
        integer(-1), -1, "The socket's send buffer; -1 leaves it to the system."
    )
    socket_receive_buffer_bytes: int = _setting(
        integer(-1), -1, "The socket's receive buffer; -1 leaves it to the system."
    )
    socket_listen_backlog_size: int = _setting(
        integer(1), 50, "Connections that may wait to be accepted."
    )
    max_connections: int = _wide(integer(0), INT_MAX, "Connections that a broker takes.")
    max_connections_per_ip: int = _wide(
        integer(0), INT_MAX, "Connections that a broker takes from one address."
    )
    max_connections_per_ip_overrides: tuple[str, ...] = _wide(
        counts_by_name(), (), "Other limits for some addresses, as address:count."
    )
    connections_max_idle_ms: int = _setting(
        long(-1), 600_000, "After which idle time a connection is closed."
    )
    max_incremental_fetch_session_cache_slots: int = _setting(
        integer(0), 1_000, "Fetch sessions that are kept."
    )
    fetch_max_bytes: int = _setting(integer(1_024), 57_671_680, "The largest answer to a fetch.")
    unstable_api_versions_enable: bool = _setting(
        boolean(), False, "Whether versions that may still change are served and announced."
    )
    max_request_partition_size_limit: int = _setting(
        integer(1), 2_000, "Partitions in one page of DescribeTopicPartitions."
    )

    headwater_metrics_listener: str | None = _setting(
        optional(text()), None, "Where metrics are served over HTTP, as host:port."
    )

    # Topics.
    num_partitions: int = _setting(
        integer(1), 1, "Partitions of a topic for which nobody says how many."
    )
    default_replication_factor: int = _setting(
        integer(1), 1, "Replicas of a topic for which nobody says how many."
    )
    auto_create_topics_enable: bool = _setting(
        boolean(), True, "Whether a topic is made when a client first asks for it."
    )
    delete_topic_enable: bool = _setting(boolean(), True, "Whether topics can be deleted.")

    # Storage. `StorageSettings` is the part of these that the storage room takes.
    log_dir: str = _setting(text(), "/tmp/kafka-logs", "Where logs lie when log.dirs is not set.")
    log_dirs: tuple[str, ...] | None = _setting(
        optional(names()), None, "The directories where logs lie, parted by commas."
    )
    num_recovery_threads_per_data_dir: int = _setting(
        integer(1), 2, "Threads that check the logs of one directory at a start."
    )
    log_retention_check_interval_ms: int = _setting(
        long(1), 300_000, "How often logs are searched for segments past their limits."
    )
    log_initial_task_delay_ms: int = _setting(
        long(0), 30_000, "How long background work waits after a start."
    )
    log_flush_scheduler_interval_ms: int = _setting(
        long(0), LONG_MAX, "How often logs are searched for those whose flush.ms is over."
    )
    log_flush_offset_checkpoint_interval_ms: int = _setting(
        integer(0), 60_000, "How often recovery points are written down."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = _setting(
        integer(0), 60_000, "How often log start offsets are written down."
    )
    replica_high_watermark_checkpoint_interval_ms: int = _setting(
        long(0), 5_000, "How often high watermarks are written down."
    )
    producer_id_expiration_ms: int = _wide(
        integer(1), 86_400_000, "How long the state of an idle producer is kept."
    )
    producer_id_expiration_check_interval_ms: int = _setting(
        integer(1), 600_000, "How often idle producers are searched for."
    )
    log_cleaner_enable: bool = _setting(boolean(), True, "Whether logs are compacted at all.")
    log_cleaner_threads: int = _setting(
        integer(0), 1, "Taken for compatibility; one child process compacts."
    )
    log_cleaner_backoff_ms: int = _wide(
        long(0), 15_000, "How long the cleaner rests when no log is due."
    )
    log_cleaner_dedupe_buffer_size: int = _wide(
        long(0), 134_217_728, "Bytes that the map from key to newest offset may take."
    )
    log_cleaner_io_buffer_size: int = _wide(
        integer(0), 524_288, "Bytes that the cleaner reads at once."
    )
    log_cleaner_io_buffer_load_factor: float = _wide(
        double(0, 1), 0.9, "How full that map may get before a cleaning stops short."
    )
    log_cleaner_io_max_bytes_per_second: int = _wide(
        rate(), LONG_MAX, "How fast the cleaner may read and write."
    )
    headwater_open_files_max: int = _setting(
        integer(16), 8_192, "Segment files that may be open at one time."
    )
    headwater_cold_read_bytes_max: int = _setting(
        long(1_048_576), 67_108_864, "Bytes that cold reads may hold at one time."
    )

    # Groups, transactions and their topics.
    offsets_topic_num_partitions: int = _setting(
        integer(1), 50, "Partitions of __consumer_offsets."
    )
    offsets_topic_replication_factor: int = _setting(
        integer(1, SHORT_MAX), 3, "Replicas of __consumer_offsets; a lone broker makes one."
    )
    offsets_topic_segment_bytes: int = _setting(
        integer(1_048_576), 104_857_600, "Segment size of __consumer_offsets."
    )
    offsets_retention_minutes: int = _setting(
        integer(1), 10_080, "How long committed offsets outlive their group."
    )
    offset_metadata_max_bytes: int = _setting(
        integer(0), 4_096, "The longest text that may go with a committed offset."
    )
    group_min_session_timeout_ms: int = _setting(
        integer(0), 6_000, "The shortest session that a consumer may ask for."
    )
    group_max_session_timeout_ms: int = _setting(
        integer(0), 1_800_000, "The longest session that a consumer may ask for."
    )
    group_initial_rebalance_delay_ms: int = _setting(
        integer(0), 3_000, "How long a new group waits for more members."
    )
    group_max_size: int = _setting(integer(1), INT_MAX, "Members that a group may have.")
    transaction_state_log_num_partitions: int = _setting(
        integer(1), 50, "Partitions of __transaction_state."
    )
    transaction_state_log_replication_factor: int = _setting(
        integer(1, SHORT_MAX), 3, "Replicas of __transaction_state; a lone broker makes one."
    )
    transaction_state_log_min_isr: int = _setting(
        integer(1), 2, "The min.insync.replicas of __transaction_state; a lone broker needs one."
    )
    transaction_state_log_segment_bytes: int = _setting(
        integer(1_048_576), 104_857_600, "Segment size of __transaction_state."
    )
    transaction_max_timeout_ms: int = _setting(
        integer(1), 900_000, "The longest timeout that a transaction may ask for."
    )
    transactional_id_expiration_ms: int = _setting(
        integer(1), 604_800_000, "How long an idle transactional id is remembered."
    )

    # Replication.
    replica_lag_time_max_ms: int = _setting(
        long(1), 30_000, "After which time a follower that lags is no longer in sync."
    )
    replica_fetch_max_bytes: int = _setting(
        integer(0), 1_048_576, "Bytes that a follower asks of one partition."
    )
    replica_fetch_response_max_bytes: int = _setting(
        integer(0), 10_485_760, "Bytes that a follower asks for at once."
    )
    replica_fetch_wait_max_ms: int = _setting(
        integer(0), 500, "How long a follower's fetch may wait for records."
    )
    auto_leader_rebalance_enable: bool = _setting(
        boolean(), True, "Whether leadership goes back to preferred leaders by itself."
    )
    leader_imbalance_check_interval_seconds: int = _setting(
        long(1), 300, "How often that is looked at."
    )
    controlled_shutdown_enable: bool = _setting(
        boolean(), True, "Whether a broker hands its leaderships over before it stops."
    )

    def storage(self) -> StorageSettings:
        """The part that the storage room takes."""
        # Equal names have equal types; a test compares the defaults.
        values = {each.name: getattr(self, each.name) for each in fields(StorageSettings)}
        return StorageSettings(**values)


def settings_of_brokers() -> dict[str, BrokerSetting]:
    """Every setting by its Kafka name, in the order above."""
    defaults = BrokerSettings()
    return {
        kafka_name(each.name): BrokerSetting(
            name=kafka_name(each.name),
            kind=each.metadata["kind"],
            default=getattr(defaults, each.name),
            reach=each.metadata["reach"],
            doc=each.metadata["doc"],
        )
        for each in fields(BrokerSettings)
    }
