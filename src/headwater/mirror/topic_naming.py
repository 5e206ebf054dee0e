"""What a topic is called where it is copied to, which topics are copied, and which must not be.

Two mirrors in opposite directions would copy their own copies for ever. Batches are not opened, so
records cannot carry where they came from; topics can. The cluster that is written to keeps for each
copied topic the clusters that it has passed (its *path*), and no topic goes where it has been.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Topics of machinery. MirrorMaker leaves out the same, and so never copies our own either.
INTERNAL: Final = re.compile(r"__.*|.*[-.](internal|replica)")
# Groups of passers-by and of machinery, which have no use for offsets elsewhere.
PASSING_GROUPS: Final = re.compile(r"console-consumer-.*|connect-.*|__.*|headwater-mirror\..*")

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Copies are called like the original, after a prefix that names its cluster, if there is one.

    An empty prefix keeps the names as they are.
    """

    prefix: str

    def of_copy(self, topic: str) -> str:
        return f"{self.prefix}{topic}"

    def is_possible(self, topic: str) -> bool:
        """Whether a copy could be called that; a prefix may make a name too long."""
        return _TOPIC_NAME.fullmatch(self.of_copy(topic)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """Which topics a user means."""

    topics: re.Pattern[str]
    exclude: re.Pattern[str] | None = None

    def has(self, topic: str) -> bool:
        if INTERNAL.fullmatch(topic) or not self.topics.fullmatch(topic):
            return False
        return self.exclude is None or not self.exclude.fullmatch(topic)


def path_of_copy(path: Sequence[str], source_cluster: str) -> Path:
    """The clusters that the copy of a topic has passed, given those of the original."""
    return (*path, source_cluster)


def goes_in_circles(path: Sequence[str], target_cluster: str) -> bool:
    """Whether a topic with such a path would come back to where it was."""
    return target_cluster in path
