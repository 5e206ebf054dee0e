"""The newest records of several topics, in one list ordered by time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headwater.console.views.records import RecordRow

TOPICS_MAX: Final = 5
RECORDS_PER_TOPIC_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMessage:
    """A record with its topic."""

    topic: str
    record: RecordRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageList:
    """Records of all chosen topics, newest first, and which topics there are."""

    topics: tuple[str, ...]
    all_topics: tuple[str, ...]
    messages: tuple[TopicMessage, ...]
    filter: str
    limit: int
    looked_at: int
    ended_early: tuple[str, ...]
    """Topics whose search stopped early, to limit the load."""


def merged(found: Sequence[tuple[str, Sequence[RecordRow]]]) -> tuple[TopicMessage, ...]:
    """Newest first; records without a timestamp are last."""
    every = [TopicMessage(topic=topic, record=row) for topic, rows in found for row in rows]
    return tuple(
        sorted(
            every,
            key=lambda each: (
                -(each.record.timestamp_ms if each.record.timestamp_ms is not None else -1),
                each.topic,
                each.record.partition,
                -each.record.offset,
            ),
        )
    )
