"""Topics that a consumer group subscribes to, and a hash to detect their changes.

A group stores a hash of its topics as they were at the last assignment; another hash means that
partitions must be assigned again. The values differ from Kafka's (4.1), which is harmless: a
coordinator that finds a foreign hash rebalances once.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from struct import pack

from headwater.common.ids import TopicId
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.metadata.cluster_image import ClusterImage

ResolvedRegexes = Mapping[str, Sequence[str]]
"""Topic names by regular expression."""


def subscribed_names(members: Iterable[ConsumerGroupMember], regexes: ResolvedRegexes) -> list[str]:
    """Return all subscribed names, existing or not, sorted."""
    names: dict[str, None] = {}
    seen_regexes: dict[str, None] = {}
    for member in members:
        names.update(dict.fromkeys(member.subscribed_topic_names))
        seen_regexes[member.subscribed_topic_regex] = None
    for regex in seen_regexes:
        names.update(dict.fromkeys(regexes.get(regex, ())))
    return sorted(names)


def hash_of_topics(names: Iterable[str], image: ClusterImage) -> int:
    """Hash what an assignment depends on: existing topics and partition counts."""
    digest = blake2b(digest_size=8)
    nothing = True
    for name in names:
        topic = image.topics.get(name)
        if topic is not None:
            nothing = False
            digest.update(pack(">h", len(name)) + name.encode())
            digest.update(topic.topic_id + pack(">i", len(topic.partitions)))
    return 0 if nothing else int.from_bytes(digest.digest(), "big", signed=True)


class TopicLookup:
    """Topic ids of subscriptions, cached as most members share their topics."""

    def __init__(self, image: ClusterImage, regexes: ResolvedRegexes) -> None:
        self._image = image
        self._regexes = regexes
        self._found: dict[tuple[tuple[str, ...], str], tuple[TopicId, ...]] = {}
        self.partition_counts: dict[TopicId, int] = {}

    def topics_of(self, member: ConsumerGroupMember) -> tuple[TopicId, ...]:
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(member)
        return found

    def _look_up(self, member: ConsumerGroupMember) -> tuple[TopicId, ...]:
        topic_ids = []
        for name in subscribed_names((member,), self._regexes):
            topic = self._image.topics.get(name)
            if topic is not None:
                topic_ids.append(topic.topic_id)
                self.partition_counts[topic.topic_id] = len(topic.partitions)
        return tuple(sorted(topic_ids))
