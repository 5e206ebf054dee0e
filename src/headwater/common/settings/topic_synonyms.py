"""Broker settings that topics inherit, for each topic setting.

The first synonym that is set counts. Synonyms in hours or minutes are converted to milliseconds;
all others have the same text in both places. As in Kafka 4.1, clients see only the first synonym.
"""

from dataclasses import dataclass

from headwater.common.settings.broker_settings import settings_of_brokers
from headwater.common.settings.declared_settings import BrokerSetting, UpdateMode
from headwater.common.settings.setting_types import SettingType, Value, integer, optional
from headwater.common.settings.topic_settings import KINDS, TopicSettings

_MILLISECONDS = {"hours": 3_600_000, "minutes": 60_000}


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """Topic setting with its broker synonyms and meaning."""

    synonyms: tuple[str, ...]
    doc: str


TOPIC_SETTINGS: dict[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(
        ("log.cleanup.policy",),
        "How old records are removed: delete, compact, or both, comma-separated.",
    ),
    "retention.ms": TopicSetting(
        (
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ),
        "How long to keep a segment after its newest record; -1 keeps it forever.",
    ),
    "retention.bytes": TopicSetting(
        ("log.retention.bytes",),
        "Maximum size of a partition before old segments are deleted; -1 for no limit.",
    ),
    "segment.bytes": TopicSetting(("log.segment.bytes",), "Maximum size of a segment file."),
    "segment.ms": TopicSetting(
        (
            "log.roll.ms",
            "log.roll.hours",
        ),
        "Age after which the next append rolls a segment even if it is not full.",
    ),
    "segment.jitter.ms": TopicSetting(
        (
            "log.roll.jitter.ms",
            "log.roll.jitter.hours",
        ),
        "Maximum random time subtracted from segment.ms, so that segments do not roll together.",
    ),
    "segment.index.bytes": TopicSetting(
        ("log.index.size.max.bytes",),
        "Maximum size of each index of a segment; a full index rolls the segment.",
    ),
    "index.interval.bytes": TopicSetting(
        ("log.index.interval.bytes",),
        "Bytes of log between two entries of the offset index.",
    ),
    "flush.messages": TopicSetting(
        ("log.flush.interval.messages",),
        "Number of records after which the log is flushed to disk.",
    ),
    "flush.ms": TopicSetting(
        (
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
        "Time after which a record is flushed to disk.",
    ),
    "max.message.bytes": TopicSetting(
        ("message.max.bytes",), "Largest record batch that is accepted, after compression."
    ),
    "min.insync.replicas": TopicSetting(
        ("min.insync.replicas",), "Minimum size of the ISR for a write with acks=all."
    ),
    "unclean.leader.election.enable": TopicSetting(
        ("unclean.leader.election.enable",),
        "Whether a replica outside the ISR may become leader; records may be lost.",
    ),
    "compression.type": TopicSetting(
        ("compression.type",), "Compression codec of stored batches; producer keeps the producer's."
    ),
    "compression.gzip.level": TopicSetting(
        ("compression.gzip.level",),
        "Compression level for gzip, 1 to 9; -1 for the codec's default.",
    ),
    "compression.lz4.level": TopicSetting(
        ("compression.lz4.level",), "Compression level for lz4, 1 to 17."
    ),
    "compression.zstd.level": TopicSetting(
        ("compression.zstd.level",), "Compression level for zstd, -131072 to 22."
    ),
    "delete.retention.ms": TopicSetting(
        ("log.cleaner.delete.retention.ms",),
        "How long compaction keeps tombstones and transaction markers.",
    ),
    "min.compaction.lag.ms": TopicSetting(
        ("log.cleaner.min.compaction.lag.ms",), "Minimum time before a record can be compacted."
    ),
    "max.compaction.lag.ms": TopicSetting(
        ("log.cleaner.max.compaction.lag.ms",),
        "Maximum time before a log is compacted whatever its dirty ratio.",
    ),
    "min.cleanable.dirty.ratio": TopicSetting(
        ("log.cleaner.min.cleanable.ratio",),
        "Minimum ratio of dirty bytes for a log to be compacted.",
    ),
    "file.delete.delay.ms": TopicSetting(
        ("log.segment.delete.delay.ms",),
        "How long deleted files are kept under the suffix .deleted.",
    ),
    "message.timestamp.type": TopicSetting(
        ("log.message.timestamp.type",),
        "Timestamp of a record: CreateTime (producer) or LogAppendTime (broker).",
    ),
    "message.timestamp.before.max.ms": TopicSetting(
        ("log.message.timestamp.before.max.ms",),
        "Maximum time that a timestamp may be before the broker's.",
    ),
    "message.timestamp.after.max.ms": TopicSetting(
        ("log.message.timestamp.after.max.ms",),
        "Maximum time that a timestamp may be after the broker's.",
    ),
    "preallocate": TopicSetting(
        ("log.preallocate",),
        "Whether to reserve disk space for segment.bytes when a segment is created.",
    ),
    "leader.replication.throttled.replicas": TopicSetting(
        (), "Replicas throttled on the leader: list of partition:broker, or *."
    ),
    "follower.replication.throttled.replicas": TopicSetting(
        (), "Replicas throttled on the follower: list of partition:broker, or *."
    ),
    "headwater.record.validation.enable": TopicSetting(
        ("headwater.record.validation.enable",),
        "Whether batches are decompressed and their records validated before an append.",
    ),
}

assert set(TOPIC_SETTINGS) == set(KINDS)


def in_topic_text(synonym: str, text: str) -> str:
    """Convert a broker's value to the topic setting's: hours, minutes to ms."""
    factor = _MILLISECONDS.get(synonym.rpartition(".")[2])
    return text if factor is None or text == "-1" else str(int(text) * factor)


def all_broker_settings() -> dict[str, BrokerSetting]:
    """Return a broker's own settings and the defaults of its topics."""
    known = settings_of_brokers()
    for topic_name, setting in TOPIC_SETTINGS.items():
        for synonym in setting.synonyms:
            known.setdefault(synonym, _inherited(topic_name, synonym, setting))
    return known


def _inherited(topic_name: str, synonym: str, setting: TopicSetting) -> BrokerSetting:
    unit = synonym.rpartition(".")[2]
    is_in_unit = unit in _MILLISECONDS
    kind: SettingType[Value | None] = optional(_UNITS[synonym] if is_in_unit else KINDS[topic_name])
    # Of several synonyms, the last has the default and the others are null.
    is_last = synonym == setting.synonyms[-1]
    default: Value | None = None
    if is_last:
        default = getattr(TopicSettings(), topic_name.replace(".", "_"))
        if is_in_unit:
            assert isinstance(default, int)
            default //= _MILLISECONDS[unit]
    return BrokerSetting(
        name=synonym,
        kind=kind,
        default=default,
        update_mode=UpdateMode.READ_ONLY if is_in_unit else UpdateMode.CLUSTER_WIDE,
        doc=f"Default {topic_name} of topics. {setting.doc}",
    )


_UNITS: dict[str, SettingType[int]] = {
    "log.retention.hours": integer(-1),
    "log.retention.minutes": integer(-1),
    "log.roll.hours": integer(1),
    "log.roll.jitter.hours": integer(0),
}
