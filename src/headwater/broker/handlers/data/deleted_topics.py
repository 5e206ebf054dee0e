"""Remember which topics were deleted, so that their re-creation does not hide the deletion.

A Metadata request that creates a topic on first use gets the topic in its answer; Kafka answers
UNKNOWN_TOPIC_OR_PARTITION and the client asks again. A client that knew the former topic of that
name must see it gone before it sees its successor, so a deleted name is answered as Kafka does.
"""

from collections.abc import Iterable
from typing import Final

from headwater.metadata.changes import MetadataChange, TopicCreated, TopicDeleted, TopicKnown

NAMES_MAX: Final = 1_000


class DeletedTopics:
    """Names of topics that were deleted since the start and not created again, the last ones."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        # In the order of their deletion.
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def changed(self, changes: Iterable[MetadataChange]) -> None:
        """Take note of topics that came or went."""
        for change in changes:
            match change:
                case TopicDeleted(name):
                    self._names.pop(name, None)
                    self._names[name] = None
                    if len(self._names) > self._names_max:
                        del self._names[next(iter(self._names))]
                case TopicCreated(topic) | TopicKnown(topic):
                    self._names.pop(topic.name, None)
                case _:
                    pass
