"""Names of copied topics, topic filters, and cycle detection.

Two mirrors in opposite directions would copy their own copies forever. Batches are not decoded, so
records cannot carry their origin, but topics can: the target cluster stores for each copied topic
the clusters that it has passed (its *path*), and no topic is copied to a cluster in its path.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Internal topics. MirrorMaker excludes the same ones, and hence never copies Headwater's either.
INTERNAL: Final = re.compile(r"__.*|.*[-.](internal|replica)")
# Temporary and internal groups, whose offsets are not synced.
EXCLUDED_GROUPS: Final = re.compile(r"console-consumer-.*|connect-.*|__.*|headwater-mirror\..*")

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Copies are named `<prefix><topic>`; with an empty prefix they keep their names."""

    prefix: str

    def of_copy(self, topic: str) -> str:
        return f"{self.prefix}{topic}"

    def is_possible(self, topic: str) -> bool:
        """Whether the copy's name is valid; a prefix may make it too long."""
        return _TOPIC_NAME.fullmatch(self.of_copy(topic)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """Topics that a user selected."""

    topics: re.Pattern[str]
    exclude: re.Pattern[str] | None = None

    def has(self, topic: str) -> bool:
        if INTERNAL.fullmatch(topic) or not self.topics.fullmatch(topic):
            return False
        return self.exclude is None or not self.exclude.fullmatch(topic)


def path_of_copy(path: Sequence[str], source_cluster: str) -> Path:
    """The path of a copy, given the path of its source topic."""
    return (*path, source_cluster)


def is_cycle(path: Sequence[str], target_cluster: str) -> bool:
    """Whether the topic has already been in the target cluster."""
    return target_cluster in path
