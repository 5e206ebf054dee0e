"""A consumer's subscription: topics, a pattern, or assigned partitions.

Only one of the three at a time, as in Kafka. In a consumer group the broker matches a pattern given
as text (RE2), in a classic group the client does; a compiled pattern is always matched here.
"""

import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headwater.client.argument_checks import several, topic_name
from headwater.client.errors import IllegalState, InvalidRegularExpression
from headwater.client.network.cluster_metadata import ClusterMetadata
from headwater.common.ids import TopicPartition


class RebalanceListener:
    """Callbacks for assignment changes, called in `poll` and `close`.

    With asyncio the methods may be coroutines.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were assigned. They have no positions yet; `seek` may set them."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Partitions will be revoked: the last chance to commit their offsets."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were lost and may have a new owner. Calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


class Matcher(Protocol):
    """The used part of `re.Pattern`."""

    def search(self, string: str, /) -> object | None: ...


@dataclass(slots=True)
class Subscription:
    """The current subscription."""

    topics: tuple[str, ...] = ()
    pattern: Matcher | None = None
    server_pattern: str | None = None
    is_manual: bool = False
    listener: RebalanceListener = field(default_factory=RebalanceListener)

    @property
    def uses_group(self) -> bool:
        return bool(self.topics or self.pattern is not None or self.server_pattern is not None)

    def check_not_manual(self) -> None:
        if self.is_manual:
            raise IllegalState("partitions were assigned manually; unsubscribe first")

    def check_manual(self) -> None:
        if self.uses_group:
            raise IllegalState("the consumer is subscribed to topics; unsubscribe first")

    def wanted_topics(self, metadata: ClusterMetadata, *, excludes_internal: bool) -> list[str]:
        """The topics to subscribe to, matched against known metadata."""
        if self.pattern is None:
            return list(self.topics)
        return sorted(
            name
            for name, view in metadata.topics.items()
            if not (excludes_internal and view.is_internal) and self.pattern.search(name)
        )


def subscription_to(
    topics: Iterable[str] | None,
    pattern: "str | re.Pattern[str] | None",
    *,
    broker_matches: bool,
    listener: RebalanceListener | None,
) -> Subscription:
    """Check the arguments of `subscribe`."""
    chosen = listener or RebalanceListener()
    if (topics is None) == (pattern is None):
        raise IllegalState("subscribe takes topics or a pattern, and not both")
    if pattern is None:
        names = map(topic_name, several(topics or (), "topics"))
        return Subscription(topics=tuple(dict.fromkeys(names)), listener=chosen)
    if isinstance(pattern, str) and broker_matches:
        return Subscription(server_pattern=pattern, listener=chosen)
    return Subscription(pattern=_whole(pattern), listener=chosen)


def _whole(pattern: "str | re.Pattern[str]") -> Matcher:
    """Anchor a pattern: Kafka's patterns match the whole name, as RE2's on the broker."""
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(rf"\A(?:{pattern})\Z")
    except re.error as error:
        raise InvalidRegularExpression(
            f"{pattern!r} is not a valid pattern: {error.msg}"
        ) from error
