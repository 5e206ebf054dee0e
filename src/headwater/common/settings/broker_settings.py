"""The settings of a broker, under Kafka's own names.

Field `num_partitions` is Kafka's `num.partitions`. Each field says in one place how its text is
read, its default, and what it means; `reach` says whether it may change while the broker runs.
Those that topics inherit are in `topic_synonyms`. That a setting is known here does not mean
that something obeys it yet: docs/reference/settings.md says which are.
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
"""A file of Kafka's may name assignors by their classes."""


LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

AUTHORIZER_CLASSES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Both of Kafka's authorizers go by the same rules, and so does ours."""


# In the order in which Kafka writes its default.
_PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")


def _wide(kind: SettingType[T], default: T, doc: str) -> T:
    return _setting(kind, default, doc, UpdateMode.CLUSTER_WIDE)


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
        names(),
        tuple(f"{each}:{each}" for each in _PROTOCOLS),
        "Which protocol each listener speaks, as NAME:PROTOCOL.",
    )
    inter_broker_listener_name: str | None = _setting(
        optional(text()), None, "The listener that brokers use among themselves."
    )
    security_inter_broker_protocol: str = _setting(
        upper_word(*_PROTOCOLS),
        "PLAINTEXT",
        "What brokers speak when no listener is named for them.",
    )

    # Of TLS and SASL: what is set for all listeners or for one, to be read by classes of its own.
    listener_texts: AllListenerTexts = field(default=AllListenerTexts({}))

    # Network.
    num_network_threads: int = _setting(
        integer(1), 3, "Taken for compatibility; one loop serves all.", has_effect=False
    )
    num_io_threads: int = _setting(
        integer(1), 8, "Taken for compatibility; one loop serves all.", has_effect=False
    )
    background_threads: int = _setting(integer(1), 10, "Threads for work that may block.")
    headwater_record_validation_threads: int = _setting(
        integer(1), 2, "Threads that validate or recompress large batches before an append."
    )
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
    headwater_tls_handshake_timeout_ms: int = _setting(
        integer(1), 10_000, "How long a new connection may take to agree on TLS."
    )
    max_connections: int = _wide(integer(0), INT_MAX, "Connections that a broker takes.")
    max_connection_creation_rate: int = _wide(
        integer(0), INT_MAX, "New connections that a broker takes in a second; others wait."
    )
    max_connections_per_ip: int = _wide(
        integer(0), INT_MAX, "Connections that a broker takes from one address."
    )
    max_connections_per_ip_overrides: tuple[str, ...] = _wide(
        counts_by_name(), (), "Other limits for some addresses, as address:count."
    )
    connections_max_idle_ms: int = _setting(
        long(-1), 600_000, "After which idle time a connection is closed."
    )
    connection_failed_authentication_delay_ms: int = _setting(
        integer(0), 100, "How long whoever could not log in waits for the answer."
    )
    sasl_mechanism_inter_broker_protocol: str | None = _setting(
        optional(text()), None, "How brokers log in at each other."
    )
    max_incremental_fetch_session_cache_slots: int = _setting(
        integer(0), 1_000, "Fetch sessions that are kept."
    )
    fetch_max_bytes: int = _setting(integer(1_024), 57_671_680, "The largest answer to a fetch.")
    unstable_api_versions_enable: bool = _setting(
        boolean(), False, "Whether versions that may still change are served and announced."
    )
    headwater_request_elements_max: int = _setting(
        integer(5_000), 50_000, "Elements in all arrays of one request; some APIs take fewer."
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
        integer(1), 2, "Threads that check the logs of one directory at a start.", has_effect=False
    )
    log_retention_check_interval_ms: int = _setting(
        long(1), 300_000, "How often logs are searched for segments past their limits."
    )
    log_initial_task_delay_ms: int = _setting(
        long(0), 30_000, "How long background work waits after a start.", has_effect=False
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
        integer(0), 1, "Taken for compatibility; one child process compacts.", has_effect=False
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
    offsets_commit_timeout_ms: int = _setting(
        integer(1), 5_000, "How long an answer of a group's coordinator waits for replicas."
    )
    offsets_retention_minutes: int = _setting(
        integer(1), 10_080, "How long committed offsets outlive their group."
    )
    offsets_retention_check_interval_ms: int = _setting(
        long(1), 600_000, "How often offsets past their time are searched for."
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
    group_max_size: int = _setting(integer(1), INT_MAX, "Members that a classic group may have.")
    group_coordinator_rebalance_protocols: tuple[str, ...] = _setting(
        list_of("classic", "consumer", "share", "streams"),
        ("classic", "consumer", "streams"),
        "Protocols that groups may speak; only classic and consumer are served.",
    )
    group_coordinator_threads: int = _setting(
        integer(1), 4, "Taken for compatibility; one loop serves all.", has_effect=False
    )
    group_coordinator_append_linger_ms: int = _setting(
        integer(0),
        5,
        "Taken for compatibility; a coordinator's records are written at once.",
        has_effect=False,
    )
    group_consumer_session_timeout_ms: int = _setting(
        integer(1), 45_000, "After which silence a member of a consumer group is removed."
    )
    group_consumer_min_session_timeout_ms: int = _setting(
        integer(1), 45_000, "The shortest session that a consumer group may have of its own."
    )
    group_consumer_max_session_timeout_ms: int = _setting(
        integer(1), 60_000, "The longest session that a consumer group may have of its own."
    )
    group_consumer_heartbeat_interval_ms: int = _setting(
        integer(1), 5_000, "How often a member of a consumer group is told to be heard of."
    )
    group_consumer_min_heartbeat_interval_ms: int = _setting(
        integer(1), 5_000, "The shortest interval that a consumer group may have of its own."
    )
    group_consumer_max_heartbeat_interval_ms: int = _setting(
        integer(1), 15_000, "The longest interval that a consumer group may have of its own."
    )
    group_consumer_max_size: int = _setting(
        integer(1), INT_MAX, "Members that a consumer group may have."
    )
    group_consumer_assignors: tuple[str, ...] = _setting(
        some_of("uniform", "range", *ASSIGNOR_CLASSES),
        ("uniform", "range"),
        "What consumer groups may be assigned by; the first is for members who do not say.",
    )
    group_consumer_migration_policy: str = _setting(
        word("bidirectional", "upgrade", "downgrade", "disabled"),
        "bidirectional",
        "Whether a group with members may change between the classic and the consumer protocol.",
    )
    group_consumer_regex_refresh_interval_ms: int = _setting(
        integer(10_000), 600_000, "How often the topics of regular expressions are looked up anew."
    )
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
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _setting(
        integer(1), 10_000, "When an overdue transaction is tried again that could not be aborted."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _setting(
        integer(1), 3_600_000, "How often idle transactional ids are searched for."
    )
    transaction_partition_verification_enable: bool = _wide(
        boolean(), True, "Whether a transaction's first batch in a partition is verified."
    )
    add_partitions_to_txn_retry_backoff_ms: int = _setting(
        integer(1), 20, "When a partition is added again to a transaction that is being ended."
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = _setting(
        integer(0), 100, "For how long that is tried before the client hears of it."
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
    replica_fetch_min_bytes: int = _setting(
        integer(0), 1, "Bytes for which a follower's fetch waits."
    )
    replica_fetch_wait_max_ms: int = _setting(
        integer(0), 500, "How long a follower's fetch may wait for records."
    )
    replica_fetch_backoff_ms: int = _setting(
        integer(0), 1_000, "How long a follower leaves a leader alone after a failure."
    )
    replica_socket_timeout_ms: int = _setting(
        integer(1), 30_000, "How long a follower waits for an answer."
    )
    num_replica_fetchers: int = _setting(
        integer(1),
        1,
        "Taken for compatibility; one connection fetches all of a leader's.",
        has_effect=False,
    )
    replica_selector_class: str | None = _setting(
        optional(one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
        None,
        "Who chooses the replica that a consumer reads from; null leaves it to leaders.",
    )
    leader_replication_throttled_rate: int = _setting(
        long(0),
        LONG_MAX,
        "Bytes per second that a leader sends of throttled replicas.",
        UpdateMode.PER_BROKER,
    )
    follower_replication_throttled_rate: int = _setting(
        long(0),
        LONG_MAX,
        "Bytes per second that a follower fetches of throttled replicas.",
        UpdateMode.PER_BROKER,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = _setting(
        long(0),
        LONG_MAX,
        "Bytes per second that are copied when replicas move to other log directories.",
        UpdateMode.PER_BROKER,
    )
    auto_leader_rebalance_enable: bool = _setting(
        boolean(), True, "Whether leadership goes back to preferred leaders by itself."
    )
    leader_imbalance_check_interval_seconds: int = _setting(
        long(1), 300, "How often that is looked at."
    )
    leader_imbalance_per_broker_percentage: int = _setting(
        integer(0),
        10,
        "How many of a broker's preferred partitions others may lead before that is changed.",
    )
    controller_socket_timeout_ms: int = _setting(
        integer(1), 30_000, "How long the controller waits for a broker's answer."
    )
    controlled_shutdown_enable: bool = _setting(
        boolean(), True, "Whether a broker hands its leaderships over before it stops."
    )
    controlled_shutdown_max_retries: int = _setting(
        integer(0),
        3,
        "How often the controller is asked for that before the broker stops all the same.",
    )
    controlled_shutdown_retry_backoff_ms: int = _setting(
        long(0), 5_000, "How long to wait before the controller is asked again."
    )

    # Quotas.
    quota_window_num: int = _setting(
        integer(1), 11, "How many samples the rates of clients are measured over."
    )
    quota_window_size_seconds: int = _setting(
        integer(1), 1, "How long one of these samples is, and the longest wait for time used."
    )
    controller_quota_window_num: int = _setting(
        integer(1), 11, "The same for partitions that are made and deleted."
    )
    controller_quota_window_size_seconds: int = _setting(
        integer(1), 1, "How long one of these samples is."
    )
    headwater_quota_entities_max: int = _setting(
        integer(1), 10_000, "Of how many users, clients or addresses the use is remembered."
    )

    # The home of a cluster's facts.
    zookeeper_connect: str | None = _setting(
        optional(text()), None, "The ZooKeeper of the cluster; null makes a broker that is alone."
    )
    zookeeper_session_timeout_ms: int = _setting(
        integer(1), 6_000, "How long a broker may be silent before it is taken for dead."
    )
    zookeeper_connection_timeout_ms: int | None = _setting(
        optional(integer(1)),
        None,
        "How long a start waits for ZooKeeper; null is the session timeout, at least 30000.",
    )

    # Who may do what.
    authorizer_class_name: str = _setting(
        one_class_of(*AUTHORIZER_CLASSES),
        "",
        "Whether rights are asked for: one of Kafka's two class names, or none.",
    )
    super_users: str = _setting(principals(), "", "Who may do everything, as User:alice;User:bob.")
    allow_everyone_if_no_acl_found: bool = _setting(
        boolean(), False, "Whether what no rule is about is open to everybody, or closed."
    )

    headwater_refusing_brokers_fence: bool = _setting(
        boolean(),
        True,
        "Whether a broker whose address refuses connections is taken for dead at once.",
    )

    def storage(self) -> StorageSettings:
        """The part that the storage room takes."""
        # Equal names have equal types; a test compares the defaults.
        values = {each.name: getattr(self, each.name) for each in fields(StorageSettings)}
        return StorageSettings(**values)


def settings_of_brokers() -> dict[str, BrokerSetting]:
    """Every setting by its Kafka name, in the order above."""
    return settings_in(BrokerSettings)
