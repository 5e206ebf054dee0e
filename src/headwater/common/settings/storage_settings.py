"""Broker settings that the storage package uses, under Kafka's names.

Field `log_retention_check_interval_ms` is Kafka's `log.retention.check.interval.ms`. The two that
start with `headwater_` have no counterpart in Kafka.
"""

from dataclasses import dataclass

from headwater.common.settings.topic_settings import LONG_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Intervals of background tasks and their limits."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_scheduler_interval_ms: int = LONG_MAX
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_io_buffer_size: int = 524_288
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_max_bytes_per_second: int = LONG_MAX
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX
    headwater_open_files_max: int = 8_192
    headwater_cold_read_bytes_max: int = 67_108_864
