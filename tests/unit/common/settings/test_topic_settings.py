"""Topic settings, parsed from Kafka's strings."""

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.topic_settings import TopicSettings


def test_defaults_are_kafkas() -> None:
    settings = TopicSettings.parse({})
    assert settings.retention_ms == 7 * 24 * 3600 * 1000
    assert settings.max_message_bytes == 1024 * 1024 + 12
    assert settings.is_deleted
    assert not settings.is_compacted


def test_values_are_parsed() -> None:
    settings = TopicSettings.parse(
        {"cleanup.policy": "compact, delete", "segment.bytes": "2097152", "preallocate": "TRUE"}
    )
    assert settings.cleanup_policy == ("compact", "delete")
    assert settings.segment_bytes == 2_097_152
    assert settings.preallocate is True


def test_cleanup_policy_may_be_empty() -> None:
    """As in Kafka 4.1: its records stay forever."""
    settings = TopicSettings.parse({"cleanup.policy": ""})
    assert not settings.is_deleted
    assert not settings.is_compacted


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1, 12:3"])
def test_throttled_replicas_are_a_star_or_pairs(text: str) -> None:
    settings = TopicSettings.parse({"leader.replication.throttled.replicas": text})
    assert ", ".join(settings.leader_replication_throttled_replicas) == text


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "-2", "between -1"),
        ("retention.ms", "soon", "whole number"),
        ("cleanup.policy", "shred", "list of"),
        ("compression.type", "rar", "one of"),
        ("min.cleanable.dirty.ratio", "1.5", "between 0 and 1"),
        ("compression.gzip.level", "0", "between 1"),
        ("preallocate", "maybe", "true or false"),
        ("segmentbytes", "1", "did you mean segment.bytes"),
        ("leader.replication.throttled.replicas", "0", "partition:broker"),
        ("follower.replication.throttled.replicas", "*,0:1", "partition:broker"),
    ],
)
def test_invalid_value_is_rejected_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        TopicSettings.parse({name: text})


def test_min_compaction_lag_must_not_exceed_max() -> None:
    with pytest.raises(InvalidSetting, match=r"min\.compaction\.lag\.ms"):
        TopicSettings.parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
