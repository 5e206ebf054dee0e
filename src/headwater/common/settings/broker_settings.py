"""KafkaConfig: the settings of a broker, under Kafka's names.

Field `num_partitions` is Kafka's `num.partitions`. Each field declares its type, default, meaning
and whether it can change at runtime. Settings that topics inherit are in `topic_synonyms`. A
setting that is declared here may not have an effect yet: see docs/reference/settings.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from headwater.common.settings.declared_settings import BrokerSetting, UpdateMode, settings_in
from headwater.common.settings.declared_settings import setting as _setting
from headwater.common.settings.listener_settings import AllListenerTexts
from headwater.common.settings.setting_types import (
    INT_MAX,
    LONG_MAX,
    SHORT_MAX,
    SettingType,
    boolean,
    counts_by_name,
    double,
    integer,
    list_of,
    long,
    names,
    one_class_of,
    one_of,
    optional,
    principals,
    rate,
    some_of,
    text,
    upper_word,
    word,
)
from headwater.common.settings.storage_settings import StorageSettings

T = TypeVar("T")

ASSIGNOR_CLASSES: Final[Mapping[str, str]] = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Kafka's class names of the assignors."""


LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

AUTHORIZER_CLASSES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's authorizers; both names select Headwater's own, which follows the same rules."""


# In the order of Kafka's default.
_PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")


def _wide(kind: SettingType[T], default: T, doc: str) -> T:
    return _setting(kind, default, doc, UpdateMode.CLUSTER_WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Settings of one broker as Python values."""

    # Identity and listeners.
    node_id: int = _setting(integer(0), 0, "Id of this broker in the cluster.")
    broker_id: int = _setting(integer(-1), -1, "Old name of node.id.")
    broker_rack: str | None = _setting(
        optional(text()), None, "Rack of the broker; replicas are spread across racks."
    )
    listeners: tuple[str, ...] = _setting(
        names(), ("PLAINTEXT://:9092",), "Comma-separated list of listeners (NAME://host:port)."
    )
    advertised_listeners: tuple[str, ...] | None = _setting(
        optional(names()),
        None,
        "Listeners that clients connect to; null for the value of listeners.",
    )
    listener_security_protocol_map: tuple[str, ...] = _setting(
        names(),
        tuple(f"{each}:{each}" for each in _PROTOCOLS),
        "Security protocol of each listener (NAME:PROTOCOL).",
    )
    inter_broker_listener_name: str | None = _setting(
        optional(text()), None, "Listener for connections between brokers."
    )
    security_inter_broker_protocol: str = _setting(
        upper_word(*_PROTOCOLS),
        "PLAINTEXT",
        "Security protocol between brokers if inter.broker.listener.name is not set.",
    )

    # TLS and SASL settings for all listeners or for one, as text, parsed by their own classes.
    listener_texts: AllListenerTexts = field(default=AllListenerTexts({}))

    # Network.
    num_network_threads: int = _setting(
        integer(1),
        3,
        "Accepted for compatibility; one event loop handles all requests.",
        has_effect=False,
    )
    num_io_threads: int = _setting(
        integer(1),
        8,
        "Accepted for compatibility; one event loop handles all requests.",
        has_effect=False,
    )
    background_threads: int = _setting(
        integer(1), 10, "Threads for blocking work, such as disk I/O."
    )
    headwater_record_validation_threads: int = _setting(
        integer(1), 2, "Threads that validate or recompress large batches before an append."
    )
    queued_max_requests: int = _setting(integer(1), 500, "Maximum number of queued requests.")
    queued_max_request_bytes: int = _setting(
        long(-1), -1, "Maximum bytes of queued requests; -1 for no limit."
    )
    request_timeout_ms: int = _setting(
        integer(0), 30_000, "How long a broker waits for the response of another broker."
    )
    socket_request_max_bytes: int = _setting(
        integer(1), 104_857_600, "Largest request; a larger one closes the connection."
    )
    socket_send_buffer_bytes: int = _setting(
        integer(-1), -1, "SO_SNDBUF of sockets; -1 for the operating system's default."
    )
    socket_receive_buffer_bytes: int = _setting(
        integer(-1), -1, "SO_RCVBUF of sockets; -1 for the operating system's default."
    )
    socket_listen_backlog_size: int = _setting(
        integer(1), 50, "Maximum number of connections waiting to be accepted."
    )
    headwater_tls_handshake_timeout_ms: int = _setting(
        integer(1), 10_000, "Maximum duration of a TLS handshake."
    )
    max_connections: int = _wide(
        integer(0), INT_MAX, "Maximum number of connections of the broker."
    )
    max_connection_creation_rate: int = _wide(
        integer(0), INT_MAX, "Maximum number of new connections per second; others are delayed."
    )
    max_connections_per_ip: int = _wide(
        integer(0), INT_MAX, "Maximum number of connections per IP address."
    )
    max_connections_per_ip_overrides: tuple[str, ...] = _wide(
        counts_by_name(), (), "Other limits for some addresses (address:count)."
    )
    connections_max_idle_ms: int = _setting(
        long(-1), 600_000, "Idle time after which a connection is closed."
    )
    connection_failed_authentication_delay_ms: int = _setting(
        integer(0), 100, "How long the response to a failed authentication is delayed."
    )
    sasl_mechanism_inter_broker_protocol: str | None = _setting(
        optional(text()), None, "SASL mechanism between brokers."
    )
    max_incremental_fetch_session_cache_slots: int = _setting(
        integer(0), 1_000, "Maximum number of incremental fetch sessions."
    )
    fetch_max_bytes: int = _setting(integer(1_024), 57_671_680, "Maximum size of a fetch response.")
    unstable_api_versions_enable: bool = _setting(
        boolean(), False, "Whether unstable API versions are enabled."
    )
    headwater_request_elements_max: int = _setting(
        integer(5_000),
        50_000,
        "Maximum number of array elements in a request; some APIs have lower limits.",
    )
    max_request_partition_size_limit: int = _setting(
        integer(1), 2_000, "Maximum number of partitions in a DescribeTopicPartitions response."
    )

    headwater_metrics_listener: str | None = _setting(
        optional(text()), None, "Address of the HTTP endpoint for metrics (host:port)."
    )
    headwater_metrics_topics_max: int = _setting(
        integer(0),
        1_000,
        "Maximum number of topics with metrics of their own; the others are summed up.",
    )

    headwater_group_lag_interval_ms: int = _setting(
        integer(100),
        5_000,
        "Interval at which log end offsets are sampled for the lag metrics of groups.",
    )
    headwater_group_lag_partitions_max: int = _setting(
        integer(0),
        5_000,
        "Maximum number of committed offsets whose lag is measured; 0 measures none.",
    )

    # Topics.
    num_partitions: int = _setting(integer(1), 1, "Default number of partitions of a topic.")
    default_replication_factor: int = _setting(
        integer(1), 1, "Default replication factor of a topic."
    )
    auto_create_topics_enable: bool = _setting(
        boolean(), True, "Whether topics are created when a client first uses them."
    )
    delete_topic_enable: bool = _setting(boolean(), True, "Whether topics can be deleted.")

    # Storage. `StorageSettings` is the part that the storage package uses.
    log_dir: str = _setting(text(), "/tmp/kafka-logs", "Log directory if log.dirs is not set.")
    log_dirs: tuple[str, ...] | None = _setting(
        optional(names()), None, "Comma-separated list of log directories."
    )
    num_recovery_threads_per_data_dir: int = _setting(
        integer(1),
        2,
        "Threads per log directory that recover logs after an unclean shutdown.",
    )
    log_retention_check_interval_ms: int = _setting(
        long(1), 300_000, "Interval of the check for segments to delete."
    )
    log_initial_task_delay_ms: int = _setting(
        long(0),
        30_000,
        "Accepted for compatibility; background tasks first run after their own interval.",
        has_effect=False,
    )
    log_flush_scheduler_interval_ms: int = _setting(
        long(0), LONG_MAX, "Interval of the check for logs that flush.ms requires to flush."
    )
    log_flush_offset_checkpoint_interval_ms: int = _setting(
        integer(0), 60_000, "Interval at which recovery points are checkpointed."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = _setting(
        integer(0), 60_000, "Interval at which log start offsets are checkpointed."
    )
    replica_high_watermark_checkpoint_interval_ms: int = _setting(
        long(0), 5_000, "Interval at which high watermarks are checkpointed."
    )
    producer_id_expiration_ms: int = _wide(
        integer(1), 86_400_000, "How long the state of an idle producer is kept."
    )
    producer_id_expiration_check_interval_ms: int = _setting(
        integer(1), 600_000, "Interval of the check for expired producers."
    )
    log_cleaner_enable: bool = _setting(boolean(), True, "Whether logs are compacted.")
    log_cleaner_threads: int = _wide(
        integer(0), 1, "Maximum number of logs that are compacted at once, each by a child process."
    )
    log_cleaner_backoff_ms: int = _wide(
        long(0), 15_000, "How long the cleaner pauses if no log needs cleaning."
    )
    log_cleaner_dedupe_buffer_size: int = _wide(
        long(0),
        134_217_728,
        "Memory of the maps from key to newest offset, of all cleaner threads.",
    )
    log_cleaner_io_buffer_size: int = _wide(
        integer(0), 524_288, "Size of the read buffers of all cleaner threads."
    )
    log_cleaner_io_buffer_load_factor: float = _wide(
        double(0, 1), 0.9, "Maximum load factor of the cleaner's offset map."
    )
    log_cleaner_io_max_bytes_per_second: int = _wide(
        rate(), LONG_MAX, "Maximum bytes per second that all cleaner threads read and write."
    )
    headwater_open_files_max: int = _setting(
        integer(16), 8_192, "Maximum number of open segment files."
    )
    headwater_cold_read_bytes_max: int = _setting(
        long(1_048_576), 67_108_864, "Maximum bytes of concurrent reads that bypass the page cache."
    )
    headwater_cold_reads_per_data_dir_max: int = _setting(
        integer(1, 64),
        4,
        "Maximum number of concurrent reads that bypass the page cache, per log directory.",
    )
    headwater_cache_dir: str | None = _setting(
        optional(text()),
        None,
        "Directory on a faster disk that keeps what lagging consumers read again.",
    )
    headwater_cache_bytes: int = _setting(
        long(67_108_864), 10_737_418_240, "Maximum bytes in headwater.cache.dir."
    )
    headwater_cache_min_reads: int = _setting(
        integer(1, 2),
        2,
        "Reads of the same bytes from disk until headwater.cache.dir keeps them.",
    )

    # Groups, transactions and their topics.
    offsets_topic_num_partitions: int = _setting(
        integer(1), 50, "Partitions of __consumer_offsets."
    )
    offsets_topic_replication_factor: int = _setting(
        integer(1, SHORT_MAX), 3, "Replication factor of __consumer_offsets; 1 on a single broker."
    )
    offsets_topic_segment_bytes: int = _setting(
        integer(1_048_576), 104_857_600, "Segment size of __consumer_offsets."
    )
    offsets_commit_timeout_ms: int = _setting(
        integer(1), 5_000, "How long the group coordinator waits for replicas."
    )
    offsets_retention_minutes: int = _setting(
        integer(1), 10_080, "How long committed offsets are kept after their group is empty."
    )
    offsets_retention_check_interval_ms: int = _setting(
        long(1), 600_000, "Interval of the check for expired offsets."
    )
    offset_metadata_max_bytes: int = _setting(
        integer(0), 4_096, "Maximum size of the metadata of a committed offset."
    )
    group_min_session_timeout_ms: int = _setting(
        integer(0), 6_000, "Minimum session timeout of a consumer."
    )
    group_max_session_timeout_ms: int = _setting(
        integer(0), 1_800_000, "Maximum session timeout of a consumer."
    )
    group_initial_rebalance_delay_ms: int = _setting(
        integer(0), 3_000, "How long a new group waits for more members before its first rebalance."
    )
    group_max_size: int = _setting(
        integer(1), INT_MAX, "Maximum number of members of a classic group."
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = _setting(
        list_of("classic", "consumer", "share", "streams"),
        ("classic", "consumer", "streams"),
        "Enabled rebalance protocols; only classic and consumer are supported.",
    )
    group_coordinator_threads: int = _setting(
        integer(1),
        4,
        "Accepted for compatibility; one event loop handles all requests.",
        has_effect=False,
    )
    group_coordinator_append_linger_ms: int = _setting(
        integer(0),
        5,
        "Accepted for compatibility; coordinators write their records immediately.",
        has_effect=False,
    )
    group_consumer_session_timeout_ms: int = _setting(
        integer(1),
        45_000,
        "Time without a heartbeat after which a consumer group member is removed.",
    )
    group_consumer_min_session_timeout_ms: int = _setting(
        integer(1), 45_000, "Minimum of a group's consumer.session.timeout.ms."
    )
    group_consumer_max_session_timeout_ms: int = _setting(
        integer(1), 60_000, "Maximum of a group's consumer.session.timeout.ms."
    )
    group_consumer_heartbeat_interval_ms: int = _setting(
        integer(1), 5_000, "Heartbeat interval of consumer group members."
    )
    group_consumer_min_heartbeat_interval_ms: int = _setting(
        integer(1), 5_000, "Minimum of a group's consumer.heartbeat.interval.ms."
    )
    group_consumer_max_heartbeat_interval_ms: int = _setting(
        integer(1), 15_000, "Maximum of a group's consumer.heartbeat.interval.ms."
    )
    group_consumer_max_size: int = _setting(
        integer(1), INT_MAX, "Maximum number of members of a consumer group."
    )
    group_consumer_assignors: tuple[str, ...] = _setting(
        some_of("uniform", "range", *ASSIGNOR_CLASSES),
        ("uniform", "range"),
        "Server-side assignors; the first is the default.",
    )
    group_consumer_migration_policy: str = _setting(
        word("bidirectional", "upgrade", "downgrade", "disabled"),
        "bidirectional",
        "Whether non-empty groups may change between classic and consumer protocol.",
    )
    group_consumer_regex_refresh_interval_ms: int = _setting(
        integer(10_000),
        600_000,
        "Interval at which regular expression subscriptions are resolved again.",
    )
    transaction_state_log_num_partitions: int = _setting(
        integer(1), 50, "Partitions of __transaction_state."
    )
    transaction_state_log_replication_factor: int = _setting(
        integer(1, SHORT_MAX), 3, "Replication factor of __transaction_state; 1 on a single broker."
    )
    transaction_state_log_min_isr: int = _setting(
        integer(1), 2, "min.insync.replicas of __transaction_state; 1 on a single broker."
    )
    transaction_state_log_segment_bytes: int = _setting(
        integer(1_048_576), 104_857_600, "Segment size of __transaction_state."
    )
    transaction_max_timeout_ms: int = _setting(
        integer(1), 900_000, "Maximum timeout of a transaction."
    )
    transactional_id_expiration_ms: int = _setting(
        integer(1), 604_800_000, "How long an idle transactional id is kept."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _setting(
        integer(1), 10_000, "Retry interval for timed-out transactions that could not be aborted."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _setting(
        integer(1), 3_600_000, "Interval of the check for expired transactional ids."
    )
    transaction_partition_verification_enable: bool = _wide(
        boolean(), True, "Whether a transaction's first batch in a partition is verified (KIP-890)."
    )
    add_partitions_to_txn_retry_backoff_ms: int = _setting(
        integer(1), 20, "Backoff before adding a partition to a still completing transaction again."
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = _setting(
        integer(0), 100, "Maximum time of these retries before the client gets an error."
    )

    # Replication.
    replica_lag_time_max_ms: int = _setting(
        long(1), 30_000, "Time after which a lagging follower is removed from the ISR."
    )
    replica_fetch_max_bytes: int = _setting(
        integer(0), 1_048_576, "Bytes per partition in a follower's fetch."
    )
    replica_fetch_response_max_bytes: int = _setting(
        integer(0), 10_485_760, "Maximum size of the response to a follower's fetch."
    )
    replica_fetch_min_bytes: int = _setting(
        integer(0), 1, "Minimum bytes of the response to a follower's fetch."
    )
    replica_fetch_wait_max_ms: int = _setting(
        integer(0), 500, "Maximum time that a follower's fetch waits for records."
    )
    replica_fetch_backoff_ms: int = _setting(
        integer(0), 1_000, "How long a follower waits after a failed fetch."
    )
    replica_socket_timeout_ms: int = _setting(
        integer(1), 30_000, "How long a follower waits for a response."
    )
    num_replica_fetchers: int = _setting(
        integer(1),
        1,
        "Accepted for compatibility; one connection per leader fetches all partitions.",
        has_effect=False,
    )
    replica_selector_class: str | None = _setting(
        optional(one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
        None,
        "Class that selects the replica to read from; null for the leader.",
    )
    leader_replication_throttled_rate: int = _setting(
        long(0),
        LONG_MAX,
        "Maximum bytes per second that a leader sends to throttled replicas.",
        UpdateMode.PER_BROKER,
    )
    follower_replication_throttled_rate: int = _setting(
        long(0),
        LONG_MAX,
        "Maximum bytes per second that a follower fetches for throttled replicas.",
        UpdateMode.PER_BROKER,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = _setting(
        long(0),
        LONG_MAX,
        "Maximum bytes per second copied when replicas move between log directories.",
        UpdateMode.PER_BROKER,
    )
    auto_leader_rebalance_enable: bool = _setting(
        boolean(), True, "Whether preferred leaders are elected automatically."
    )
    leader_imbalance_check_interval_seconds: int = _setting(
        long(1), 300, "Interval of the check for leader imbalance."
    )
    leader_imbalance_per_broker_percentage: int = _setting(
        integer(0),
        10,
        "Leader imbalance per broker, in percent, above which leaders are rebalanced.",
    )
    controller_socket_timeout_ms: int = _setting(
        integer(1), 30_000, "How long the controller waits for a broker's response."
    )
    controlled_shutdown_enable: bool = _setting(
        boolean(), True, "Whether a broker moves its leaders to other brokers before it stops."
    )
    controlled_shutdown_max_retries: int = _setting(
        integer(0),
        3,
        "Number of controlled shutdown requests before the broker stops anyway.",
    )
    controlled_shutdown_retry_backoff_ms: int = _setting(
        long(0), 5_000, "Backoff between controlled shutdown requests."
    )

    # Quotas.
    quota_window_num: int = _setting(integer(1), 11, "Number of samples for client quotas.")
    quota_window_size_seconds: int = _setting(
        integer(1), 1, "Length of a sample for client quotas, and longest request quota throttle."
    )
    controller_quota_window_num: int = _setting(
        integer(1), 11, "Number of samples for controller mutation quotas."
    )
    controller_quota_window_size_seconds: int = _setting(
        integer(1), 1, "Length of a sample for controller mutation quotas."
    )
    headwater_quota_entities_max: int = _setting(
        integer(1),
        10_000,
        "Maximum number of users, client ids or addresses whose usage is tracked.",
    )

    # ZooKeeper.
    zookeeper_connect: str | None = _setting(
        optional(text()),
        None,
        "ZooKeeper of the cluster (host:port,.../chroot); null for a single broker.",
    )
    zookeeper_session_timeout_ms: int = _setting(
        integer(1), 6_000, "ZooKeeper session timeout, after which a broker counts as dead."
    )
    zookeeper_connection_timeout_ms: int | None = _setting(
        optional(integer(1)),
        None,
        "How long a start waits for ZooKeeper; null: session timeout, at least 30000.",
    )

    # Authorization.
    authorizer_class_name: str = _setting(
        one_class_of(*AUTHORIZER_CLASSES),
        "",
        "Authorizer: one of Kafka's two class names; empty for no authorization.",
    )
    super_users: str = _setting(
        principals(), "", "Principals that may do everything (User:alice;User:bob)."
    )
    allow_everyone_if_no_acl_found: bool = _setting(
        boolean(), False, "Whether resources without ACLs are open to everyone."
    )

    headwater_refusing_brokers_fence: bool = _setting(
        boolean(),
        True,
        "Whether a broker or controller that refuses connections counts as dead immediately.",
    )

    def storage(self) -> StorageSettings:
        """Return the settings that the storage package uses."""
        # Same names have the same types; a test compares the defaults.
        values = {each.name: getattr(self, each.name) for each in fields(StorageSettings)}
        return StorageSettings(**values)


def settings_of_brokers() -> dict[str, BrokerSetting]:
    """Return every setting by its Kafka name, in declaration order."""
    return settings_in(BrokerSettings)
