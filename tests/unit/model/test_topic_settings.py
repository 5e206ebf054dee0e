"""Topic settings, read from Kafka's own strings."""

import pytest

from headwater.model.failures import InvalidSetting
from headwater.model.topic_settings import TopicSettings


def test_defaults_are_kafkas() -> None:
    settings = TopicSettings.parse({})
    assert settings.retention_ms == 7 * 24 * 3600 * 1000
    assert settings.max_message_bytes == 1024 * 1024 + 12
    assert settings.is_deleted
    assert not settings.is_compacted


def test_values_are_read_from_text() -> None:
    settings = TopicSettings.parse(
        {"cleanup.policy": "compact, delete", "segment.bytes": "2097152", "preallocate": "TRUE"}
    )
    assert settings.cleanup_policy == ("compact", "delete")
    assert settings.segment_bytes == 2_097_152
    assert settings.preallocate is True


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
    ],
)
def test_a_bad_value_is_refused_with_its_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        TopicSettings.parse({name: text})


def test_the_two_compaction_lags_must_agree() -> None:
    with pytest.raises(InvalidSetting, match=r"min\.compaction\.lag\.ms"):
        TopicSettings.parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
