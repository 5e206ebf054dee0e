"""What topics inherit from their brokers: for each topic setting, the broker settings behind it.

The first synonym that is set counts. Those in hours or minutes are read as numbers of these and
become milliseconds; everything else has the same text in both places. A client is only told of the
first synonym, and of the others never: Kafka does this (4.1).
"""

from dataclasses import dataclass

from headwater.common.settings.broker_settings import settings_of_brokers
from headwater.common.settings.declared_settings import BrokerSetting, UpdateMode
from headwater.common.settings.setting_types import SettingType, Value, integer, optional
from headwater.common.settings.topic_settings import KINDS, TopicSettings

_MILLISECONDS = {"hours": 3_600_000, "minutes": 60_000}


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One topic setting: what it inherits from, and what it means."""

    synonyms: tuple[str, ...]
    doc: str


TOPIC_SETTINGS: dict[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(
        ("log.cleanup.policy",),
        "What happens to old records: delete, compact, or both, parted by a comma.",
    ),
    "retention.ms": TopicSetting(
        (
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ),
        "How long a segment is kept after its newest record. -1 keeps it for ever.",
    ),
    "retention.bytes": TopicSetting(
        ("log.retention.bytes",),
        "How large a partition may grow before its oldest segments go. -1 sets no limit.",
    ),
    "segment.bytes": TopicSetting(
        ("log.segment.bytes",), "How large a segment may grow before a new one begins."
    ),
    "segment.ms": TopicSetting(
        (
            "log.roll.ms",
            "log.roll.hours",
        ),
        "After which time a segment is rolled even if it is not full. Needs an append.",
    ),
    "segment.jitter.ms": TopicSetting(
        (
            "log.roll.jitter.ms",
            "log.roll.jitter.hours",
        ),
        "Taken off segment.ms at random, so that not all segments roll at once.",
    ),
    "segment.index.bytes": TopicSetting(
        ("log.index.size.max.bytes",),
        "How large each index of a segment may grow. A full index rolls the segment.",
    ),
    "index.interval.bytes": TopicSetting(
        ("log.index.interval.bytes",),
        "How many bytes of log lie between two entries of the offset index.",
    ),
    "flush.messages": TopicSetting(
        ("log.flush.interval.messages",), "After so many records the log is flushed to disk."
    ),
    "flush.ms": TopicSetting(
        (
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
        "After so much time the log is flushed to disk.",
    ),
    "max.message.bytes": TopicSetting(("message.max.bytes",), "The largest batch that is taken."),
    "min.insync.replicas": TopicSetting(
        ("min.insync.replicas",), "How many in-sync replicas a write with acks=all needs."
    ),
    "unclean.leader.election.enable": TopicSetting(
        ("unclean.leader.election.enable",),
        "Whether a replica that is not in sync may lead, at the price of lost records.",
    ),
    "compression.type": TopicSetting(
        ("compression.type",), "The codec on disk; producer keeps what was sent."
    ),
    "compression.gzip.level": TopicSetting(
        ("compression.gzip.level",), "Level for gzip, 1 to 9; -1 is the codec's own default."
    ),
    "compression.lz4.level": TopicSetting(("compression.lz4.level",), "Level for lz4, 1 to 17."),
    "compression.zstd.level": TopicSetting(
        ("compression.zstd.level",), "Level for zstd, -131072 to 22."
    ),
    "delete.retention.ms": TopicSetting(
        ("log.cleaner.delete.retention.ms",),
        "How long compaction keeps tombstones and transaction markers.",
    ),
    "min.compaction.lag.ms": TopicSetting(
        ("log.cleaner.min.compaction.lag.ms",), "How long a record is safe from compaction."
    ),
    "max.compaction.lag.ms": TopicSetting(
        ("log.cleaner.max.compaction.lag.ms",),
        "After which time a log is compacted even if it is hardly dirty.",
    ),
    "min.cleanable.dirty.ratio": TopicSetting(
        ("log.cleaner.min.cleanable.ratio",),
        "Which part of a log must be dirty before it is compacted.",
    ),
    "file.delete.delay.ms": TopicSetting(
        ("log.segment.delete.delay.ms",), "How long deleted files stay under the name .deleted."
    ),
    "message.timestamp.type": TopicSetting(
        ("log.message.timestamp.type",),
        "Whose clock counts: CreateTime the producer's, LogAppendTime the broker's.",
    ),
    "message.timestamp.before.max.ms": TopicSetting(
        ("log.message.timestamp.before.max.ms",), "How far a timestamp may lie in the past."
    ),
    "message.timestamp.after.max.ms": TopicSetting(
        ("log.message.timestamp.after.max.ms",), "How far a timestamp may lie in the future."
    ),
    "preallocate": TopicSetting(
        ("log.preallocate",), "Whether a segment's file is made in full size at once."
    ),
    "leader.replication.throttled.replicas": TopicSetting(
        (), "Which replicas a leader sends to within its quota: partition:broker, or a star."
    ),
    "follower.replication.throttled.replicas": TopicSetting(
        (), "Which replicas a follower fetches within its quota: partition:broker, or a star."
    ),
    "headwater.record.validation.enable": TopicSetting(
        ("headwater.record.validation.enable",),
        "Whether the records of a batch are decompressed and checked before it is appended.",
    ),
}

assert set(TOPIC_SETTINGS) == set(KINDS)


def in_topic_text(synonym: str, text: str) -> str:
    """A broker's text as the topic setting's: hours and minutes become milliseconds."""
    factor = _MILLISECONDS.get(synonym.rpartition(".")[2])
    return text if factor is None or text == "-1" else str(int(text) * factor)


def all_broker_settings() -> dict[str, BrokerSetting]:
    """A broker's own settings, and those that it only passes on to topics."""
    known = settings_of_brokers()
    for topic_name, setting in TOPIC_SETTINGS.items():
        for synonym in setting.synonyms:
            known.setdefault(synonym, _inherited(topic_name, synonym, setting))
    return known


def _inherited(topic_name: str, synonym: str, setting: TopicSetting) -> BrokerSetting:
    unit = synonym.rpartition(".")[2]
    is_in_unit = unit in _MILLISECONDS
    kind: SettingType[Value | None] = optional(_UNITS[synonym] if is_in_unit else KINDS[topic_name])
    # Where there are several names, the last of them has the default and the others are null.
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
        reach=UpdateMode.READ_ONLY if is_in_unit else UpdateMode.CLUSTER_WIDE,
        doc=f"The {topic_name} of topics without their own. {setting.doc}",
    )


_UNITS: dict[str, SettingType[int]] = {
    "log.retention.hours": integer(-1),
    "log.retention.minutes": integer(-1),
    "log.roll.hours": integer(1),
    "log.roll.jitter.hours": integer(0),
}
