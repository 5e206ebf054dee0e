"""LogConfig: the settings of a topic, under Kafka's names.

`TopicSettings` holds Python values; `parse` reads them from Kafka's strings and rejects what Kafka
4.1 rejects. Tests may create the dataclass with values that the parser would reject as too small,
such as segments of a few hundred bytes.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

from headwater.common.config_types import ConfigType
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.setting_types import (
    INT_MAX,
    LONG_MAX,
    SettingType,
    Value,
    boolean,
    double,
    integer,
    list_of,
    long,
    one_of,
    throttled_replicas,
)

__all__ = ["INT_MAX", "KINDS", "LONG_MAX", "TopicSettings", "Value", "kafka_name", "parse_value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Effective settings of one topic. Field `retention_ms` is Kafka's `retention.ms`."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    preallocate: bool = False
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    headwater_record_validation_enable: bool = True

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def validates_records(self) -> bool:
        """Whether clients' records are validated. Compaction relies on their keys (CP-8)."""
        return self.headwater_record_validation_enable or self.is_compacted

    @property
    def is_deleted(self) -> bool:
        """Whether retention by time and size applies (CP-9)."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Maximum age of the active segment.

        In a compacted topic at most max.compaction.lag.ms, because the active segment is never
        cleaned.
        """
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @classmethod
    def parse(cls, overrides: Mapping[str, str]) -> Self:
        return cls().with_overrides(overrides)

    def with_overrides(self, overrides: Mapping[str, str]) -> Self:
        values = {_field_name(name): parse_value(name, text) for name, text in overrides.items()}
        # mypy cannot see that each parser returns its own field's type; `parse_value` ensures it.
        settings = replace(self, **values)  # type: ignore[arg-type]
        if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
            raise InvalidSetting("min.compaction.lag.ms must not exceed max.compaction.lag.ms")
        return settings


def kafka_name(field_name: str) -> str:
    return field_name.replace("_", ".")


def parse_value(name: str, text: str) -> Value:
    """Parse one value, or raise `InvalidSetting` that says what is allowed."""
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidSetting(unknown_topic_setting_error(name))
    try:
        return kind.parse(text.strip())
    except ValueError as error:
        raise InvalidSetting(f"{name}={text}: {error}") from error


def unknown_topic_setting_error(name: str) -> str:
    """Return an error message for an unknown topic setting, with the nearest name."""
    near = difflib.get_close_matches(name, KINDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown topic setting {name}{hint}"


def _field_name(name: str) -> str:
    return name.replace(".", "_")


def _gzip_level(text: str) -> int:
    return -1 if text == "-1" else integer(1, 9).parse(text)


KINDS: dict[str, SettingType[Value]] = {
    "cleanup.policy": list_of("delete", "compact"),
    "retention.ms": long(-1),
    "retention.bytes": long(-LONG_MAX - 1),
    "segment.bytes": integer(1_048_576),
    "segment.ms": long(1),
    "segment.jitter.ms": long(0),
    "segment.index.bytes": integer(4),
    "index.interval.bytes": integer(0),
    "flush.messages": long(1),
    "flush.ms": long(0),
    "max.message.bytes": integer(0),
    "min.insync.replicas": integer(1),
    "unclean.leader.election.enable": boolean(),
    "compression.type": one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "compression.gzip.level": SettingType(ConfigType.INT, _gzip_level),
    "compression.lz4.level": integer(1, 17),
    "compression.zstd.level": integer(-131_072, 22),
    "delete.retention.ms": long(0),
    "min.compaction.lag.ms": long(0),
    "max.compaction.lag.ms": long(1),
    "min.cleanable.dirty.ratio": double(0, 1),
    "file.delete.delay.ms": long(0),
    "message.timestamp.type": one_of("CreateTime", "LogAppendTime"),
    "message.timestamp.before.max.ms": long(0),
    "message.timestamp.after.max.ms": long(0),
    "preallocate": boolean(),
    "leader.replication.throttled.replicas": throttled_replicas(),
    "follower.replication.throttled.replicas": throttled_replicas(),
    "headwater.record.validation.enable": boolean(),
}

assert {kafka_name(field.name) for field in fields(TopicSettings)} == set(KINDS)
