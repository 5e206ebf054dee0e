"""Remember deleted topics, so that re-creation does not hide the deletion.

A Metadata request that auto-creates a topic gets the topic in its response; Kafka answers
UNKNOWN_TOPIC_OR_PARTITION and the client retries. A client that knew the deleted topic must notice
its deletion before it sees the new topic of that name, so for deleted names the response is
Kafka's.
"""

from collections.abc import Iterable
from typing import Final

from headwater.metadata.changes import MetadataChange, TopicCreated, TopicDeleted, TopicKnown

NAMES_MAX: Final = 1_000


class DeletedTopics:
    """Names of the most recently deleted topics that were not re-created."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        # In the order of deletion.
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def changed(self, changes: Iterable[MetadataChange]) -> None:
        """Apply created and deleted topics."""
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
